// All views, in the order of the navigation.

import { cost } from "./cost.js";
import { events } from "./events.js";
import { hangs } from "./hangs.js";
import { job } from "./job.js";
import { nodes } from "./nodes.js";
import { overview } from "./overview.js";
import { sql } from "./sql.js";

export const VIEWS = [overview, job, hangs, nodes, cost, events, sql];
