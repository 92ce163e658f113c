// The page around the views: which one is shown, what they get to know, the navigation, the theme, the keys.

import { el } from "./dom.js";
import { askForHelp, closeOnClickBeside } from "./help.js";
import { read, write } from "./route.js";

export const place = (id) => document.getElementById(id);

/** `views` gives all of them, `filtersOf` what goes along from view to view, `asFilters` the same as questions are asked with, `context` what views get to know beside their address,
 * `drawFilters` puts the filters of a view into their form, `keys` are those of this page. */
export function shell({ name, views, filtersOf, asFilters = filtersOf, context, drawFilters, keys }) {
  let shown = null;
  let leaving = new AbortController();

  function contextOf(route) {
    const { signal } = leaving;
    return {
      params: route.params,
      filters: asFilters(route.params),
      signal,
      ...context(signal),
      link: (view, params = {}) => write(view, { ...filtersOf(route.params), ...params }),
      /** Changes the address of this view; it is shown anew. */
      set: (params) => {
        location.hash = write(route.view, { ...route.params, ...params });
      },
      /** The same without showing it anew, for what changes often. */
      note: (params) => {
        Object.assign(route.params, params);
        history.replaceState(null, "", write(route.view, route.params));
        // Links from here lead to the same process and time.
        drawNav(route.view, route);
        const view = views().find((one) => one.name === route.view);
        if (view) drawFilters(view, route);
      },
    };
  }

  async function show() {
    const route = read(location.hash);
    const view = views().find((one) => one.name === route.view);
    if (!view) return location.replace("#overview");
    const same = shown?.name === view.name;
    const focused = document.activeElement?.dataset?.key;
    leaving.abort();
    leaving = new AbortController();
    shown?.leave?.();
    drawNav(view.name, route);
    drawFilters(view, route);
    document.title = `${view.title} · ${name}`;
    const made = view.show(contextOf(route));
    const main = place("main");
    main.dataset.view = view.name;
    const heading = el("h1", { tabindex: "-1" }, view.title);
    main.replaceChildren(heading, el("p", { class: "about" }, view.about), ...made.elements);
    shown = { name: view.name, ...made };
    // Whoever goes to a view by the keyboard goes on from its begin; whoever changed something in it stays there.
    const stay = () => {
      if (!same || !focused || document.activeElement !== document.body) return;
      document.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    };
    if (!same && location.hash) heading.focus({ preventScroll: true });
    stay();
    await made.refresh();
    made.arrived?.();
    // What had the focus may be there only now.
    stay();
  }

  function drawNav(current, route) {
    const link = (view, at) =>
      el(
        "a",
        {
          href: write(view.name, filtersOf(route.params)),
          "aria-current": view.name === current ? "page" : null,
          "aria-keyshortcuts": String(at + 1),
        },
        view.title,
      );
    place("views").replaceChildren(...views().map((view, at) => el("li", {}, link(view, at))));
    place("views").querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /** The filters once more, where their choices have changed. */
  function filtersChanged() {
    const route = read(location.hash);
    const view = views().find((one) => one.name === route.view);
    if (view) drawFilters(view, route);
  }

  const isDark = () => {
    const { theme } = document.documentElement.dataset;
    return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };

  function switchTheme() {
    const { dataset } = document.documentElement;
    dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem("gpuwhy-theme", dataset.theme);
    } catch {
      // It is chosen for this page, then.
    }
    nameTheme();
  }

  function nameTheme() {
    place("theme").textContent = isDark() ? "Light" : "Dark";
    place("theme").setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
    shown?.themed?.();
  }

  const help = () => askForHelp(place("help"), views(), keys);

  function pressed(event) {
    const typing = event.target.closest?.("input, textarea, select, [role=application]");
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "?" && !event.target.closest?.("input, textarea")) return help();
    if (typing || place("help").open) return;
    const view = views()[Number(event.key) - 1];
    if (view) location.hash = write(view.name, filtersOf(read(location.hash).params));
  }

  return {
    show,
    filtersChanged,
    refresh: () => shown?.refresh(),
    begin() {
      place("theme").addEventListener("click", switchTheme);
      place("keys").addEventListener("click", help);
      place("filters").addEventListener("submit", (event) => event.preventDefault());
      closeOnClickBeside(place("help"));
      nameTheme();
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", nameTheme);
      addEventListener("hashchange", () => {
        if (location.hash !== "#main") show();
      });
      addEventListener("keydown", pressed);
      return show();
    },
  };
}
