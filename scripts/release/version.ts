// The version of the product, at every place that names it.
import { globSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Files whose images and charts carry the version. */
const files = ["deploy/**/*.{yaml,example}", "docs/operations/*.md"];

export function currentVersion(root: string): string {
  return (JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string }).version;
}

/** Sets the version in package.json, package-lock.json, the examples of `deploy` and the documentation of operators. */
export function setVersion(root: string, version: string): void {
  const old = currentVersion(root);
  for (const name of ["package.json", "package-lock.json"]) {
    const path = join(root, name);
    const content = JSON.parse(readFileSync(path, "utf8")) as {
      version: string;
      packages?: Record<string, { version: string }>;
    };
    content.version = version;
    const own = content.packages?.[""];
    if (own) own.version = version;
    writeFileSync(path, `${JSON.stringify(content, null, 2)}\n`);
  }
  for (const name of globSync(files, { cwd: root })) {
    const path = join(root, name);
    const text = readFileSync(path, "utf8");
    const changed = withVersion(text, old, version);
    if (changed !== text) writeFileSync(path, changed);
  }
}

/** Replaces the version where it follows the name of an image, of the command line's package, or is a chart's. */
export function withVersion(text: string, old: string, version: string): string {
  const escaped = old.replaceAll(".", "\\.");
  return text.replace(
    new RegExp(
      `(stoker-(?:runtime|agent|control-plane):|stoker-cli-|^(?:appVersion|version): )${escaped}(?![\\d.]*\\d)`,
      "gm",
    ),
    `$1${version}`,
  );
}
