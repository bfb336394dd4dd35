// Control plane, agent and command line as one file each, for tests that start them often: loading their 2,900 modules one by one takes most
// of a start's processor time. Built once for each state of the sources. `up` and its tests run the sources themselves.
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { compileCache, removeStaleCode } from "./compile-cache.ts";

const root = resolve(import.meta.dirname, "../..");
const builds = join(root, ".cache/test-programs");
const entries = { controlPlane: "./control-plane/main.ts", agent: "./agent/main.ts", cli: "./cli/main.ts" };
const run = promisify(execFile);
/** Packages of many small modules. The others stay where they are: some find their own files by their place. */
const inlined =
  /^(typebox|kysely|bullmq|undici|yaml|jose|prom-client|@peculiar|asn1js|pvtsutils|pvutils|semver|cron-parser|luxon|commander|string-width|strip-ansi|ansi-regex|emoji-regex|is-fullwidth-code-point|standardwebhooks|@stablelib|fast-sha256|@opentelemetry|@grpc|protobufjs|@protobufjs|lodash\.camelcase|long)(\/|$)/;
const buildLimitMs = 60_000;
/** No run of the suites takes as long. */
const keepMs = 2 * 3_600_000;

/** Paths for Node to run. */
export const programs: Readonly<Record<keyof typeof entries, string>> = await build();

async function build(): Promise<Record<keyof typeof entries, string>> {
  const folder = join(builds, sourceVersion());
  const paths = {
    controlPlane: join(folder, "controlPlane.js"),
    agent: join(folder, "agent.js"),
    cli: join(folder, "cli.js"),
  };
  if (existsSync(folder)) {
    utimesSync(folder, new Date(), new Date());
    return paths;
  }
  mkdirSync(builds, { recursive: true });
  const fresh = `${folder}.new`;
  try {
    mkdirSync(fresh);
  } catch {
    // Another worker builds it, unless it was killed.
    while (!existsSync(folder) && ageMs(fresh) < buildLimitMs) await wait(50);
    if (existsSync(folder)) return paths;
    rmSync(fresh, { recursive: true, force: true });
    return build();
  }
  try {
    await bundle(fresh);
    renameSync(fresh, folder);
  } catch (error) {
    rmSync(fresh, { recursive: true, force: true });
    throw error;
  }
  // Node keeps compiled code when a program ends by itself, which most of a test's do not: these end for want of settings.
  const env = { NODE_COMPILE_CACHE: compileCache };
  for (const path of Object.values(paths)) await run(process.execPath, [path], { env }).catch(() => {});
  removeOldBuilds();
  removeStaleCode(compileCache, keepMs);
  return paths;
}

async function bundle(folder: string): Promise<void> {
  const { rolldown } = await import("rolldown");
  const built = await rolldown({
    input: entries,
    cwd: root,
    platform: "node",
    // A name with # is one of the importing package's own.
    external: (id) => !/^[./#]/.test(id) && !inlined.test(id),
    plugins: [
      {
        name: "own-place",
        // Files beside a module (proto, console, threads) are found where its source lies.
        transform(code, id) {
          if (id.includes("/node_modules/") || !code.includes("import.meta.")) return;
          return code
            .replaceAll("import.meta.dirname", JSON.stringify(dirname(id)))
            .replaceAll("import.meta.url", JSON.stringify(pathToFileURL(id).href));
        },
      },
    ],
  });
  await built.write({ dir: folder, format: "esm" });
  await built.close();
}

/** Changes with every file that a program is made of, and with the place of the sources, which it contains. */
function sourceVersion(): string {
  const texts = createHash("sha256").update(root);
  const own = ["package-lock.json", "test/fakes/programs.ts"];
  for (const path of [...own, ...globSync("{proto,control-plane,agent,cli}/**/*.ts", { cwd: root }).toSorted()])
    texts.update(`${path}\n`).update(readFileSync(join(root, path)));
  return texts.digest("hex").slice(0, 16);
}

function removeOldBuilds(): void {
  for (const name of readdirSync(builds)) {
    const path = join(builds, name);
    if (ageMs(path) > keepMs) rmSync(path, { recursive: true, force: true });
  }
}

/** Infinity if nothing is there. */
function ageMs(path: string): number {
  return Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Number.NEGATIVE_INFINITY);
}
