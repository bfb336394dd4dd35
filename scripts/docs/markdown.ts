// Markdown to HTML: anchors, highlighted code, links between pages, and the texts that the search finds.
import { dirname, posix } from "node:path";
import GithubSlugger from "github-slugger";
import highlight from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import http from "highlight.js/lib/languages/http";
import ini from "highlight.js/lib/languages/ini";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import yaml from "highlight.js/lib/languages/yaml";
import markdownIt from "markdown-it";
import type { SitePage } from "./site-map.ts";

for (const [name, language] of Object.entries({ bash, http, ini, json, python, sql, typescript, yaml }))
  highlight.registerLanguage(name, language);

export interface Heading {
  readonly level: number;
  readonly id: string;
  readonly text: string;
}

/** A part of a page, from one heading to the next. */
export interface Passage {
  readonly heading: Heading;
  readonly text: string;
}

export interface RenderedPage {
  readonly title: string;
  readonly html: string;
  /** The title first. */
  readonly passages: readonly Passage[];
  /** Addresses that the page links to, such as `/docs/errors#no_such_model`. */
  readonly links: readonly string[];
}

const parser = markdownIt({ html: false, linkify: false });
export const { escapeHtml } = parser.utils;

/** `language`: a name that highlight.js knows; others are shown plain. */
export function codeBlock(code: string, language: string): string {
  const shown = highlight.getLanguage(language)
    ? highlight.highlight(code, { language, ignoreIllegals: true }).value
    : escapeHtml(code);
  return `<pre data-language="${escapeHtml(language)}"><code>${shown}</code></pre>\n`;
}

/** `inline`: a sentence without blocks, such as a description in the API's schema. */
export const inline = (text: string): string => parser.renderInline(text);

/** Throws Error for a link to a file that is not part of the site. */
export function renderMarkdown(text: string, page: SitePage, pages: ReadonlyMap<string, SitePage>): RenderedPage {
  const slugger = new GithubSlugger();
  const tokens = parser.parse(text, {});
  const passages: { heading: Heading; texts: string[] }[] = [];
  const links: string[] = [];

  tokens.forEach((token, at) => {
    const content = tokens[at + 1];
    if (token.type === "heading_open" && content) {
      const plain = (content.children ?? []).map((child) => child.content).join("");
      const heading = { level: Number(token.tag.slice(1)), id: slugger.slug(plain), text: plain };
      token.attrSet("id", heading.id);
      passages.push({ heading, texts: [] });
    } else if (token.type === "inline" && tokens[at - 1]?.type !== "heading_open") {
      passages.at(-1)?.texts.push((token.children ?? []).map((child) => child.content || " ").join(""));
    }
    for (const child of token.children ?? []) {
      if (child.type !== "link_open") continue;
      const href = addressOf(String(child.attrGet("href")), page, pages);
      child.attrSet("href", href);
      links.push(href);
    }
  });

  return {
    title: page.title,
    html: renderer(page, pages).render(tokens, parser.options, {}),
    passages: passages.map(({ heading, texts }) => ({ heading, text: texts.join(" ") })),
    links,
  };
}

function addressOf(href: string, page: SitePage, pages: ReadonlyMap<string, SitePage>): string {
  if (/^(https?:|mailto:|\/)/.test(href)) return href;
  const [file = "", anchor] = href.split("#");
  const source = file === "" ? page.source : posix.normalize(posix.join(dirname(page.source), file));
  const target = pages.get(source);
  if (!target) throw new Error(`${page.source} links to ${href}, which is not part of the site.`);
  return pageAddress(target.path) + (anchor === undefined ? "" : `#${anchor}`);
}

export const pageAddress = (path: string) => (path === "" ? "/docs" : `/docs/${path}`);

function renderer(page: SitePage, pages: ReadonlyMap<string, SitePage>): typeof parser.renderer {
  const { renderer: own } = markdownIt();
  own.rules["fence"] = (tokens, at) => {
    const { info = "", content = "" } = tokens[at] ?? {};
    const [language = ""] = info.trim().split(/\s+/);
    return codeBlock(content, languages[language] ?? language);
  };
  own.rules["heading_close"] = (tokens, at) => {
    const { tag = "" } = tokens[at] ?? {};
    const id = tokens
      .slice(0, at)
      .findLast((token) => token.type === "heading_open")
      ?.attrGet("id");
    if (tag === "h1") return "</h1>\n";
    return `<a class="anchor" href="#${id}" aria-label="Link to this section">#</a></${tag}>\n`;
  };
  own.rules["table_open"] = () => `<div class="table" role="region" aria-label="Table" tabindex="0"><table>\n`;
  own.rules["table_close"] = () => "</table></div>\n";
  own.rules["code_inline"] = (tokens, at) => {
    const { content = "" } = tokens[at] ?? {};
    const shown = `<code>${escapeHtml(content)}</code>`;
    const target = pages.get(content);
    if (!target || target.source === page.source) return shown;
    return `<a href="${pageAddress(target.path)}">${escapeHtml(target.title)}</a>`;
  };
  return own;
}

const languages: Readonly<Record<string, string>> = {
  console: "bash",
  sh: "bash",
  ts: "typescript",
  js: "typescript",
  toml: "ini",
  yml: "yaml",
  py: "python",
};
