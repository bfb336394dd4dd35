// All files of the documentation site, from its sources.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import MiniSearch from "minisearch";
import { rolldown } from "rolldown";
import { type Frame, type NavigationSection, pageHtml } from "./frame.ts";
import { pageAddress, type RenderedPage, renderMarkdown } from "./markdown.ts";
import type { Api } from "./openapi-types.ts";
import { referencePages } from "./reference.ts";
import { sections, sitePages } from "./site-map.ts";

/** Files by their name. Pages are `<path>.html`, the first `index.html`; others are below `assets/`, with the hash of their content. */
export async function renderSite(root: string, api: Api): Promise<ReadonlyMap<string, string>> {
  const pages = sitePages(root);
  const rendered = new Map<string, RenderedPage>();
  for (const page of pages.values()) {
    const text = readFileSync(join(root, page.source), "utf8");
    rendered.set(page.path, renderMarkdown(text, page, pages));
  }
  const reference = referencePages(api);
  for (const page of reference) rendered.set(page.path, page);
  checkLinks(rendered);

  const named = (path: string) => ({ path, title: rendered.get(path)?.title ?? path });
  const navigation: readonly NavigationSection[] = [
    ...sections.map(({ title, sources }) => ({
      title,
      pages: sources.map((source) => named(pages.get(source)?.path ?? "")),
    })),
    { title: "API reference", pages: reference.map(({ path }) => named(path)) },
  ];

  const files = new Map<string, string>();
  const asset = (name: string, content: string): string => {
    const hash = createHash("sha256").update(content).digest("hex").slice(0, 12);
    const file = `assets/${name.replace(/(?=\.\w+$)/, `.${hash}`)}`;
    files.set(file, content);
    return `/docs/${file}`;
  };
  const sources = join(root, "docs/site");
  const frame: Frame = {
    navigation,
    style: asset("site.css", readFileSync(join(sources, "site.css"), "utf8")),
    theme: asset("theme.js", await bundle(join(sources, "theme.js"), "iife")),
    script: asset("site.js", await bundle(join(sources, "site.js"), "esm")),
    index: asset("search.json", searchIndex(rendered)),
  };
  for (const [path, page] of rendered) files.set(`${path || "index"}.html`, pageHtml(frame, path, page));
  files.set("404.html", pageHtml(frame, "404", notFound));
  return files;
}

const notFound: RenderedPage = {
  title: "Page not found",
  html: `<h1>Page not found</h1>\n<p>Search for it, or open a page of the sidebar.</p>\n`,
  passages: [],
  links: [],
};

async function bundle(input: string, format: "esm" | "iife"): Promise<string> {
  const build = await rolldown({ input, platform: "browser" });
  const { output } = await build.generate({ format, minify: true });
  await build.close();
  return output[0].code;
}

/** `docs/site/site.js` reads it with the same options. */
function searchIndex(rendered: ReadonlyMap<string, RenderedPage>): string {
  const search = new MiniSearch({
    fields: ["heading", "page", "text"],
    storeFields: ["heading", "page", "address", "excerpt"],
  });
  let id = 0;
  for (const [path, { title, passages }] of rendered) {
    for (const { heading, text } of passages) {
      const address = pageAddress(path) + (heading.level === 1 ? "" : `#${heading.id}`);
      search.add({ id: id++, page: title, heading: heading.text, text, address, excerpt: text.slice(0, 120) });
    }
  }
  return JSON.stringify(search);
}

function checkLinks(rendered: ReadonlyMap<string, RenderedPage>): void {
  const known = new Set(
    [...rendered].flatMap(([path, { passages }]) => [
      pageAddress(path),
      ...passages.map(({ heading }) => `${pageAddress(path)}#${heading.id}`),
    ]),
  );
  const broken = [...rendered].flatMap(([path, { links }]) =>
    links.filter((link) => link.startsWith("/docs") && !known.has(link)).map((link) => `${pageAddress(path)}: ${link}`),
  );
  if (broken.length > 0) throw new Error(`These links lead nowhere: ${broken.join(", ")}.`);
}
