// What the documentation site contains, in the order of its sidebar. Notes for those who change the code (docs/adr, docs/checklists,
// docs/STATUS.md, ...) are not part of it.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

interface Section {
  readonly title: string;
  /** Markdown files, relative to the repository. */
  readonly sources: readonly string[];
}

export interface SitePage {
  readonly source: string;
  /** Address below /docs; empty for the first page. */
  readonly path: string;
  readonly title: string;
}

const operations = [
  "installation",
  "settings",
  "hosts",
  "control-planes",
  "public-endpoint",
  "sign-in",
  "identity-providers",
  "accounts",
  "billing",
  "models",
  "deployments",
  "kubernetes",
  "engines",
  "realtime-audio",
  "webhooks-and-batches",
  "responses",
  "rentals",
  "terminals",
  "agent-instances",
  "monitoring",
  "alerts",
  "incidents",
  "disasters",
  "backups",
  "database",
  "upgrades",
  "simulate",
].map((name) => `docs/operations/${name}.md`);

export const sections: readonly Section[] = [
  { title: "Start", sources: ["docs/README.md"] },
  {
    title: "Guides",
    sources: [
      "first-call",
      "deploy-a-model",
      "lora",
      "resumable-streams",
      "batches",
      "webhooks",
      "browsers",
      "images-and-speech",
      "rentals",
      "agents",
      "organizations",
      "verify-invoices",
      "workload-identity",
    ].map((name) => `docs/guides/${name}.md`),
  },
  {
    title: "Reference",
    sources: [
      "docs/errors.md",
      "docs/operations/command-line.md",
      "docs/clients.md",
      "docs/glossary.md",
      "docs/known-limits.md",
      "docs/changelog.md",
    ],
  },
  { title: "Operations", sources: ["docs/operations.md", ...operations, "CHANGELOG.md"] },
];

/** Pages by their source. Throws Error if a public folder contains a file that no section names. */
export function sitePages(root: string): ReadonlyMap<string, SitePage> {
  const sources = sections.flatMap((section) => section.sources);
  const missing = globSync("docs/{guides,operations}/*.md", { cwd: root }).filter((file) => !sources.includes(file));
  if (missing.length > 0) throw new Error(`scripts/docs/site-map.ts does not name ${missing.join(", ")}.`);
  return new Map(sources.map((source) => [source, { source, path: pathOf(source), title: titleOf(root, source) }]));
}

function titleOf(root: string, source: string): string {
  const [, title] = /^# (.+)/.exec(readFileSync(join(root, source), "utf8")) ?? [];
  if (title === undefined) throw new Error(`${source} does not start with a title.`);
  return title;
}

function pathOf(source: string): string {
  if (source === "docs/README.md") return "";
  if (source === "CHANGELOG.md") return "operations/changelog";
  return source
    .replace(/^docs\//, "")
    .replace(/\.md$/, "")
    .toLowerCase();
}
