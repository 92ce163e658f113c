// All views, in the order of the navigation.

import { collectives } from "./collectives.js";
import { coverage } from "./coverage.js";
import { memory } from "./memory.js";
import { operations } from "./operations.js";
import { overview } from "./overview.js";
import { processes } from "./processes.js";
import { sql } from "./sql.js";
import { stacks } from "./stacks.js";
import { timeline } from "./timeline.js";

export const VIEWS = [overview, timeline, operations, processes, collectives, memory, stacks, sql, coverage];
