// Packs a folder into one stream and unpacks it: the system's tar, which preserves owners, links, sparse files and extended
// attributes, and zstd of Node. The checksum covers the stored bytes.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { Readable, Transform, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { constants, createZstdCompress, createZstdDecompress } from "node:zlib";
import { BackupError } from "./backup-error.ts";

export interface Digest {
  readonly sha256: string;
  readonly sizeBytes: number;
}

const level = { params: { [constants.ZSTD_c_compressionLevel]: 3, [constants.ZSTD_c_checksumFlag]: 1 } };
const keepAll = ["--numeric-owner", "--sparse", "--xattrs", "--acls"];

/** `digest` is complete once `body` has ended without error. */
export function packFolder(folder: string, signal: AbortSignal): { readonly body: Readable; digest(): Digest } {
  const digest = digesting();
  async function* packed() {
    const tar = runTar(["--create", "--file=-", ...keepAll, `--directory=${folder}`, "."], signal);
    const compress = createZstdCompress(level);
    const flow = pipeline(tar.stdout, compress, { signal });
    // Awaited below; without this a failure that comes before would be unhandled.
    flow.catch(() => {});
    for await (const chunk of compress) {
      digest.take(chunk);
      yield chunk;
    }
    await flow;
    // Reject an archive that tar did not finish, even if its bytes look valid.
    await tar.ended;
  }
  return { body: Readable.from(packed(), { objectMode: false }), digest: digest.read };
}

/** Fills an empty folder. Throws BackupError `backup_damaged` when the bytes are not those of `expected`. */
export async function unpackInto(folder: string, body: Readable, expected: Digest, signal: AbortSignal): Promise<void> {
  const digest = digesting();
  const tap = new Transform({
    transform(chunk, _encoding, done) {
      digest.take(chunk);
      done(null, chunk);
    },
  });
  let cut: unknown;
  async function* fromStore() {
    try {
      yield* body;
    } catch (error) {
      cut = error;
      throw error;
    }
  }
  const tar = runTar(["--extract", "--file=-", ...keepAll, "--same-permissions", `--directory=${folder}`], signal);
  const flow = pipeline(fromStore, tap, createZstdDecompress(), into(tar.stdin), { signal });
  const [flown, ended] = await Promise.allSettled([flow, tar.ended]);
  signal.throwIfAborted();
  // Report faults of the host and the store first: a full disk also looks like a damaged archive.
  if (cut !== undefined) throw cut;
  if (ended.status === "rejected" && /no space left|quota/i.test(String(ended.reason))) throw ended.reason;
  const found = digest.read();
  if (flown.status === "rejected" || found.sizeBytes !== expected.sizeBytes || found.sha256 !== expected.sha256)
    throw new BackupError(
      "backup_damaged",
      "The backup in the store is damaged: its bytes are not those that were written. Your data was left as it is; use another backup.",
      { cause: flown.status === "rejected" ? flown.reason : found },
    );
  if (ended.status === "rejected") throw ended.reason;
}

/** Writes to a program while it reads. A program that stops reading early is no failure; its exit status is checked elsewhere. */
function into(stdin: Writable): Writable {
  let isGone = false;
  let next: ((error?: Error | null) => void) | undefined;
  const go = (): void => {
    const done = next;
    next = undefined;
    done?.();
  };
  stdin.on("drain", go);
  for (const event of ["error", "close"])
    stdin.on(event, () => {
      isGone = true;
      go();
    });
  return new Writable({
    write(chunk, _encoding, done) {
      next = done;
      if (isGone || stdin.write(chunk)) go();
    },
    // Wait until the program has read the rest: `destroy` follows and would drop what is still buffered.
    final(done) {
      next = done;
      stdin.end(go);
      if (isGone) go();
    },
    destroy(error, done) {
      stdin.destroy();
      done(error);
    },
  });
}

function digesting(): { take(chunk: Buffer): void; read(): Digest } {
  const hash = createHash("sha256");
  let sizeBytes = 0;
  let sha256: string | undefined;
  return {
    take(chunk) {
      hash.update(chunk);
      sizeBytes += chunk.length;
    },
    read() {
      sha256 ??= hash.digest("hex");
      return { sha256, sizeBytes };
    },
  };
}

/** Skips tar's last lines, which only report that there were earlier errors. */
function reasonLine(said: string): string {
  const lines = said.split("\n").filter((line) => line !== "" && !/Exiting with failure|not recoverable/.test(line));
  return lines.find((line) => /no space left|quota/i.test(line)) ?? lines.at(-1) ?? "";
}

function runTar(args: readonly string[], signal: AbortSignal) {
  // No shell, no environment: TAR_OPTIONS could name programs.
  const child = spawn("tar", args, { signal, env: { PATH: process.env["PATH"], LC_ALL: "C" }, stdio: "pipe" });
  let said = "";
  child.stderr.on("data", (text) => {
    said = `${said}${text}`.slice(-2000);
  });
  const ended = new Promise<void>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (status, killedBy) => {
      if (status === 0) resolve();
      else reject(new Error(`tar ended with ${status ?? killedBy}: ${reasonLine(said)}`));
    });
  });
  ended.catch(() => {});
  return { stdin: child.stdin, stdout: child.stdout, ended };
}
