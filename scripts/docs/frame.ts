// The HTML around each page: header, sidebar, contents. No inline script or style, because the content security policy allows none.
import { escapeHtml, type Heading, pageAddress, type RenderedPage } from "./markdown.ts";

export interface NavigationSection {
  readonly title: string;
  readonly pages: readonly { readonly path: string; readonly title: string }[];
}

export interface Frame {
  readonly navigation: readonly NavigationSection[];
  /** Addresses of the assets. */
  readonly style: string;
  readonly theme: string;
  readonly script: string;
  readonly index: string;
}

export function pageHtml(frame: Frame, path: string, page: RenderedPage): string {
  const all = frame.navigation.flatMap((section) => section.pages);
  const at = all.findIndex((one) => one.path === path);
  const title = path === "" ? "Stoker documentation" : `${page.title} · Stoker documentation`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="search-index" content="${frame.index}">
<title>${escapeHtml(title)}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${frame.style}">
<script src="${frame.theme}"></script>
<script type="module" src="${frame.script}"></script>
</head>
<body>
<a class="skip" href="#content">Skip to content</a>
<header>
<button class="menu" type="button" aria-expanded="false" aria-controls="navigation">Menu</button>
<a class="brand" href="/docs">Stoker <span>Docs</span></a>
<div class="search" role="search">
<input type="search" placeholder="Search" aria-label="Search the documentation" autocomplete="off" spellcheck="false"
 role="combobox" aria-expanded="false" aria-controls="results">
<kbd>/</kbd>
<ul id="results" role="listbox" aria-label="Results" hidden></ul>
</div>
<button class="theme" type="button" aria-label="Change between light and dark">◐</button>
<a class="console" href="/console">Console</a>
</header>
<div class="columns">
<nav id="navigation" aria-label="Pages">
${frame.navigation.map((section) => sectionHtml(section, path)).join("\n")}
</nav>
<main id="content">
${page.html}<footer>${beside(all[at - 1], "Previous")}${beside(all[at + 1], "Next")}</footer>
</main>
${contents(page.passages.map((passage) => passage.heading))}
</div>
</body>
</html>
`;
}

function sectionHtml({ title, pages }: NavigationSection, path: string): string {
  const links = pages.map((page) => {
    const current = page.path === path ? ' aria-current="page"' : "";
    return `<li><a href="${pageAddress(page.path)}"${current}>${escapeHtml(page.title)}</a></li>`;
  });
  return `<h2>${escapeHtml(title)}</h2>\n<ul>\n${links.join("\n")}\n</ul>`;
}

function beside(page: { readonly path: string; readonly title: string } | undefined, label: string): string {
  if (!page) return "<span></span>";
  return `<a href="${pageAddress(page.path)}"><small>${label}</small>${escapeHtml(page.title)}</a>`;
}

function contents(headings: readonly Heading[]): string {
  const shown = headings.filter(({ level }) => level === 2 || level === 3);
  if (shown.length < 2) return '<aside class="contents"></aside>';
  const links = shown.map(
    ({ level, id, text }) => `<li class="level-${level}"><a href="#${id}">${escapeHtml(text)}</a></li>`,
  );
  return `<aside class="contents" aria-label="On this page"><h2>On this page</h2><ul>${links.join("\n")}</ul></aside>`;
}
