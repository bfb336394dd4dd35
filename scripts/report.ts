// Publishes what tests and benches recorded on this machine (`.cache/results`) in docs/results, docs/reliability.md and
// docs/performance.md. Usage: npm run report [-- --check]
// With --check it changes nothing and exits with 1 where a figure is worse than before by more than its runs scatter.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { regressions } from "./results/compare.ts";
import { guaranteeTable, performancePage, withResults } from "./results/pages.ts";
import { addFigures, addTests, publishedFolder, readFigures, readTests, recordedFolder } from "./results/recorded.ts";
import { root, runNode } from "./suites/run-tool.ts";

const { values } = parseArgs({ options: { check: { type: "boolean", default: false } } });
if (values.check) {
  const worse = regressions(readFigures(recordedFolder));
  for (const sentence of worse) console.log(sentence);
  console.log(`${worse.length} figures are worse than before`);
  process.exit(worse.length > 0 ? 1 : 0);
}

addTests(publishedFolder, readTests(recordedFolder));
addFigures(publishedFolder, readFigures(recordedFolder));
const docs = join(root, "docs");
const read = (name: string) => readFileSync(join(docs, name), "utf8");
const table = guaranteeTable(
  { "reliability.md": read("reliability.md"), "security.md": read("security.md") },
  readTests(publishedFolder),
);
writeFileSync(join(docs, "reliability.md"), withResults(read("reliability.md"), table));
const { page, plots } = performancePage(readFigures(publishedFolder));
writeFileSync(join(docs, "performance.md"), withResults(read("performance.md"), page.trimEnd()));
mkdirSync(join(docs, "performance"), { recursive: true });
for (const [name, svg] of Object.entries(plots)) writeFileSync(join(docs, "performance", name), svg);
const biome = join(root, "node_modules/@biomejs/biome/bin/biome");
const code = await runNode(
  [biome, "format", "--write", "docs/results", "docs/reliability.md", "docs/performance.md"],
  60_000,
);
process.exit(code ?? 1);
