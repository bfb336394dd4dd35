// Inside the image build: copies source folders and only the packages they load, with what those load, to a new folder.
// Usage: node scripts/image/keep-packages.mjs <target> <folder or file> ... [--with <package>]
// A package named with --with is kept where it is installed, whoever loads it.
import { cpSync, existsSync, globSync, readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { with: { type: "string", multiple: true, default: [] } },
});
const [target, ...sources] = positionals;
const kept = new Set();

for (const source of sources) {
  cpSync(source, join(target, source), { recursive: true });
  for (const file of globSync(`${source}/**/*.ts`)) for (const name of importsOf(file)) keep(name, ".");
}
for (const name of values.with) keep(name, ".");
for (const folder of kept) cpSync(folder, join(target, folder), { recursive: true, filter: isOutermost(folder) });
console.log(`kept ${kept.size} packages`);

/** Names of packages a file imports at run time; types are gone by then. */
function importsOf(file) {
  const text = readFileSync(file, "utf8");
  const found = [
    ...text.matchAll(/^\s*(?:import|export)\s+(?!type\b)[^"';]*?\s*from\s*["']([^"'.][^"']*)["']/gm),
    ...text.matchAll(/\bimport\(\s*["']([^"'.][^"']*)["']/g),
  ].map(([, name]) => name.split("/", name.startsWith("@") ? 2 : 1).join("/"));
  return found.filter((name) => !name.startsWith("node:") && !builtinModules.includes(name));
}

function keep(name, from) {
  const folder = find(name, from);
  if (folder === undefined || kept.has(folder)) return;
  kept.add(folder);
  const { dependencies = {}, optionalDependencies = {} } = JSON.parse(
    readFileSync(join(folder, "package.json"), "utf8"),
  );
  for (const next of Object.keys({ ...dependencies, ...optionalDependencies })) keep(next, folder);
}

/** Node's lookup: in the importing folder, then in each parent. */
function find(name, from) {
  for (let at = from; ; at = dirname(at)) {
    const folder = join(at, "node_modules", name);
    if (existsSync(join(folder, "package.json"))) return folder;
    if (at === "." || at === "/") return undefined;
  }
}

/** Packages inside a package are kept by their own name, or not at all. */
function isOutermost(folder) {
  return (path) => !path.slice(folder.length).split("/").includes("node_modules");
}
