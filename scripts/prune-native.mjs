// Removes llama.cpp builds for other processors: their packages allow installation on x64 for cross-building,
// which no Stoker host does. Runs after `npm ci` on whatever Node the machine has, so plain JavaScript.
import { rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const foreign = { x64: ["linux-arm64"], arm64: ["linux-x64"] }[process.arch] ?? [];
for (const build of foreign) {
  rmSync(join(dirname(fileURLToPath(import.meta.url)), "..", "node_modules", "@node-llama-cpp", build), {
    recursive: true,
    force: true,
  });
}
