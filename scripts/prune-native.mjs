// Removes native builds that no Stoker host loads: packages bring them for other processors and systems. Runs after
// `npm ci` on whatever Node the machine has, so plain JavaScript.
import { existsSync, readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const packages = join(dirname(fileURLToPath(import.meta.url)), "..", "node_modules");
const remove = (...path) => rmSync(join(packages, ...path), { recursive: true, force: true });

// Installed on x64 for cross-building.
for (const build of { x64: ["linux-arm64"], arm64: ["linux-x64"] }[process.arch] ?? [])
  remove("@node-llama-cpp", build);

// One package for every system: 290 MB, of which this machine loads 45.
const builds = ["onnxruntime-node", "bin", "napi-v6"];
for (const system of list(...builds))
  for (const processor of list(...builds, system))
    if (system !== process.platform || processor !== process.arch) remove(...builds, system, processor);

function list(...path) {
  const folder = join(packages, ...path);
  return existsSync(folder) ? readdirSync(folder) : [];
}
