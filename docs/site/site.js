// Search, tabs of examples, copy buttons, theme and menu of the documentation site. Without scripts every text stays readable.
import MiniSearch from "minisearch";

const find = (selector) => document.querySelector(selector);
const create = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};

// Theme
find("button.theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("stoker-docs-theme", root.dataset.theme);
});

// Menu of small screens
const menu = find("button.menu");
const showMenu = (isOpen) => {
  document.body.classList.toggle("with-menu", isOpen);
  menu.setAttribute("aria-expanded", String(isOpen));
};
menu.addEventListener("click", () => showMenu(menu.getAttribute("aria-expanded") !== "true"));
const navigation = find("nav");
const current = navigation.querySelector("[aria-current]");
if (current) navigation.scrollTop = current.offsetTop - navigation.clientHeight / 2;

// Tabs: the language that a reader chose is shown on every page.
const languageKey = "stoker-docs-language";
const showLanguage = (label) => {
  for (const tabs of document.querySelectorAll(".tabs")) {
    const panels = [...tabs.querySelectorAll("[data-label]")];
    const shown = panels.find((panel) => panel.dataset.label === label) ?? panels[0];
    for (const panel of panels) panel.hidden = panel !== shown;
    for (const tab of tabs.querySelectorAll("[role=tab]"))
      tab.setAttribute("aria-selected", String(tab.textContent === shown.dataset.label));
  }
};
for (const tabs of document.querySelectorAll(".tabs")) {
  const list = create("div", { role: "tablist", ariaLabel: "Language" });
  for (const panel of tabs.querySelectorAll("[data-label]")) {
    const { label } = panel.dataset;
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-label", label);
    list.append(create("button", { type: "button", role: "tab", textContent: label }));
  }
  list.addEventListener("click", ({ target }) => {
    if (target.role !== "tab") return;
    const before = target.getBoundingClientRect().top;
    localStorage.setItem(languageKey, target.textContent);
    showLanguage(target.textContent);
    // Examples above have another length now; keep the pressed tab in its position.
    scrollBy(0, target.getBoundingClientRect().top - before);
  });
  tabs.prepend(list);
}
showLanguage(localStorage.getItem(languageKey));

// Copy
for (const block of document.querySelectorAll("pre")) {
  const button = create("button", { type: "button", className: "copy", textContent: "Copy" });
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(block.querySelector("code").textContent);
    button.textContent = "Copied";
    setTimeout(() => {
      button.textContent = "Copy";
    }, 1_500);
  });
  block.append(button);
}

// The contents mark the section in view.
const marks = new Map([...document.querySelectorAll(".contents a")].map((link) => [link.hash.slice(1), link]));
const observer = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      for (const link of marks.values()) link.classList.toggle("current", link === marks.get(target.id));
    }
  },
  { rootMargin: "0px 0px -75% 0px" },
);
for (const id of marks.keys()) observer.observe(document.getElementById(id));

// Search. The index is loaded at the first use.
const input = find(".search input");
const results = find("#results");
let index;
const loadIndex = () => {
  index ??= fetch(find("meta[name=search-index]").content)
    .then((response) => response.text())
    .then((text) =>
      MiniSearch.loadJSON(text, {
        fields: ["heading", "page", "text"],
        storeFields: ["heading", "page", "address", "excerpt"],
        searchOptions: { boost: { heading: 4, page: 2 }, prefix: true, fuzzy: 0.15, combineWith: "AND" },
      }),
    );
  return index;
};
let active = -1;
const mark = (next) => {
  const options = [...results.querySelectorAll("[role=option]")];
  active = options.length === 0 ? -1 : (next + options.length) % options.length;
  options.forEach((option, at) => {
    option.setAttribute("aria-selected", String(at === active));
  });
  if (active >= 0) input.setAttribute("aria-activedescendant", options[active].id);
  options[active]?.scrollIntoView({ block: "nearest" });
};
const close = () => {
  results.hidden = true;
  input.setAttribute("aria-expanded", "false");
};
const search = async () => {
  const words = input.value.trim();
  if (words === "") return close();
  const found = (await loadIndex()).search(words).slice(0, 12);
  if (input.value.trim() !== words) return;
  results.replaceChildren(
    ...found.map(({ heading, page, address, excerpt }, at) => {
      const where = heading === page ? [] : [create("small", { textContent: page })];
      const text = create("span", { className: "excerpt", textContent: excerpt });
      const link = create("a", { href: address, tabIndex: -1 }, create("b", { textContent: heading }), ...where, text);
      return create("li", { role: "option", id: `result-${at}` }, link);
    }),
  );
  if (found.length === 0) results.append(create("li", { textContent: "Nothing found" }));
  results.hidden = false;
  input.setAttribute("aria-expanded", "true");
  mark(0);
};
input.addEventListener("focus", loadIndex);
input.addEventListener("input", search);
input.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown") mark(active + 1);
  else if (event.key === "ArrowUp") mark(active - 1);
  else if (event.key === "Escape") close();
  else if (event.key === "Enter") results.querySelector("[aria-selected=true] a")?.click();
  else return;
  event.preventDefault();
});
document.addEventListener("click", ({ target }) => {
  if (!target.closest(".search") || target.closest("#results a")) close();
  if (target.closest("nav a")) showMenu(false);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") showMenu(false);
  if (event.key !== "/" || event.target.matches("input, textarea")) return;
  event.preventDefault();
  input.focus();
});
