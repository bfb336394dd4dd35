// Packs the command line as an npm package without dependencies: stoker-cli-VERSION.tgz, for machines without the repository. Needs Node 24.
// Usage: node scripts/pack-cli.ts [--to FOLDER]      FOLDER: the current one by default
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { rolldown } from "rolldown";

const root = resolve(import.meta.dirname, "..");
const { values } = parseArgs({ options: { to: { type: "string", default: "." } } });
const to = resolve(values.to);
const { version, license } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  readonly version: string;
  readonly license: string;
};

const manifest = {
  name: "stoker-cli",
  version,
  description: "Command line of Stoker, a self-hosted GPU inference cloud",
  license,
  type: "module",
  engines: { node: ">=24" },
  bin: { stoker: "cli/main.js" },
  files: ["cli"],
};

mkdirSync(to, { recursive: true });
const folder = mkdtempSync(join(tmpdir(), "stoker-cli-"));
try {
  await bundle(join(folder, "cli"));
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  writeFileSync(join(folder, "README.md"), readme());
  copyFileSync(join(root, "LICENSE"), join(folder, "LICENSE"));
  execFileSync("npm", ["pack", "--silent", "--ignore-scripts", "--pack-destination", to], {
    cwd: folder,
    stdio: ["ignore", "ignore", "inherit"],
  });
} finally {
  rmSync(folder, { recursive: true, force: true });
}
console.log(join(to, `stoker-cli-${version}.tgz`));

/** The worker is loaded by its path, so it has an entry of its own. */
async function bundle(dir: string): Promise<void> {
  const built = await rolldown({
    input: { main: "./cli/main.ts", "system-worker": "./agent/fingerprint/system-worker.ts" },
    cwd: root,
    platform: "node",
    // Optional parts of ws, which it tries to load.
    external: ["bufferutil", "utf-8-validate", "osx-temperature-sensor"],
    plugins: [
      {
        name: "path-of-the-worker",
        transform: (code, id) =>
          id.endsWith("/host-parts.ts") ? code.replace("./system-worker.ts", "./system-worker.js") : undefined,
      },
    ],
  });
  await built.write({
    dir,
    format: "esm",
    banner: (chunk) => (chunk.name === "main" ? "#!/usr/bin/env node" : ""),
  });
  await built.close();
}

function readme(): string {
  return `# stoker

Command line of Stoker ${version}. Needs Node.js 24.

    npm install --global ./stoker-cli-${version}.tgz
    stoker auth login --host https://stoker.example.com

Commands that start Stoker or change its database (\`up\`, \`node join\`, \`simulate\`, \`admin key\`, \`admin backup\`, \`admin rotate-kek\`, \`admin rotate-invoice-key\`) run from
a clone of the repository.
`;
}
