// A backup is one file in the age format (https://age-encryption.org/v1): a line of JSON, the manifest with the secrets, then the
// bytes of pg_dump. They are encrypted and decrypted in memory: nothing of a backup is a file in plain text at any time.
import { createHash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { open, readdir, rename, rm, stat } from "node:fs/promises";
import { hostname } from "node:os";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { ReadableStream } from "node:stream/web";
import { Decrypter, Encrypter, generateX25519Identity, identityToRecipient } from "age-encryption";
import { BackupRefused } from "./refused.ts";

/** Secrets that open a backup: the passphrase, or the identity of a recipient. */
export interface Sealing {
  readonly passphrase: string | undefined;
  /** age1... */
  readonly recipients: readonly string[];
}

export interface Opening {
  readonly passphrase: string | undefined;
  /** AGE-SECRET-KEY-1... */
  readonly identities: readonly string[];
}

export interface Written {
  readonly sha256: string;
  readonly sizeBytes: number;
}

export interface Unsealed {
  readonly manifest: unknown;
  /** Throws BackupRefused where the file is damaged or ends early. */
  readonly dump: AsyncIterable<Buffer>;
  /** Digest and size of the encrypted file; valid after `dump` was read to its end. */
  written(): Written;
}

const maxManifestBytes = 16 * 2 ** 20;
const partial = /\.stoker-backup\.(.+)\.(\d+)\.partial$/;
/** A partial file of another machine counts as abandoned when nothing was written to it for this long. */
const abandonedMs = 24 * 3_600_000;

/** Writes `path`, which appears complete or not at all. */
export async function seal(
  path: string,
  manifest: object,
  dump: AsyncIterable<Buffer>,
  { passphrase, recipients }: Sealing,
): Promise<Written> {
  const encrypter = new Encrypter();
  if (passphrase !== undefined) encrypter.setPassphrase(passphrase);
  for (const recipient of recipients) encrypter.addRecipient(recipient);
  async function* plain() {
    yield Buffer.from(`${JSON.stringify(manifest)}\n`);
    yield* dump;
  }
  const encrypted = await encrypter.encrypt(streamOf(plain()));
  const count = counting();
  const fresh = `${path}.${hostname()}.${process.pid}.partial`;
  try {
    await pipeline(count.through(encrypted), createWriteStream(fresh, { mode: 0o600, flush: true }));
    await rename(fresh, path);
    const parent = await open(dirname(path), "r");
    await parent.sync().finally(() => parent.close());
  } finally {
    await rm(fresh, { force: true });
  }
  return count.written();
}

/** Adds a temporary recipient, because the identities of the others may be elsewhere. Its key stays in memory. */
export async function withOwnKey(sealing: Sealing): Promise<{ readonly sealing: Sealing; readonly opening: Opening }> {
  const identity = await generateX25519Identity();
  const recipients = [...sealing.recipients, await identityToRecipient(identity)];
  return { sealing: { ...sealing, recipients }, opening: { passphrase: undefined, identities: [identity] } };
}

/** Removes files of killed processes from a folder of backups. */
export async function removeAbandoned(folder: string): Promise<void> {
  for (const name of await readdir(folder).catch((): string[] => [])) {
    const path = join(folder, name);
    const [, host, pid] = partial.exec(name) ?? [];
    // Versions before 0.1.0 staged plain text in these folders.
    const isStaging = name.startsWith(".staging-");
    const isAbandoned =
      host === hostname() ? !isAlive(Number(pid)) : host !== undefined && (await ageMs(path)) > abandonedMs;
    if (isStaging || isAbandoned) await rm(path, { recursive: true, force: true });
  }
}

const ageMs = async (path: string) => Date.now() - ((await stat(path).catch(() => undefined))?.mtimeMs ?? Date.now());

function isAlive(pid: number): boolean {
  // In containers processes may have the same pid; this process has no partial file yet.
  if (pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Runs `work` with the content of a backup, each part of which is authenticated before it is passed on. Throws BackupRefused. */
export async function unseal<T>(path: string, opening: Opening, work: (backup: Unsealed) => Promise<T>): Promise<T> {
  const count = counting();
  const chunks = plainText(path, opening, count);
  try {
    const { line, rest } = await firstLine(chunks);
    return await work({ manifest: parsed(line), dump: rest, written: count.written });
  } finally {
    await chunks.return();
  }
}

async function* plainText(
  path: string,
  { passphrase, identities }: Opening,
  count: Count,
): AsyncGenerator<Buffer, void, void> {
  const decrypter = new Decrypter();
  if (passphrase !== undefined) decrypter.addPassphrase(passphrase);
  for (const identity of identities) decrypter.addIdentity(identity);
  try {
    const opened = await decrypter.decrypt(streamOf(count.through(createReadStream(path))));
    for await (const chunk of opened) yield Buffer.from(chunk);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code) throw new BackupRefused(`${path} cannot be read (${code}).`, { cause });
    const secret = passphrase === undefined ? "identity" : "passphrase";
    throw new BackupRefused(`Wrong ${secret}, or the file is damaged or incomplete.`, { cause });
  }
}

async function firstLine(chunks: AsyncGenerator<Buffer, void, void>) {
  const read: Buffer[] = [];
  let size = 0;
  for (;;) {
    const { value } = await chunks.next();
    if (!value || size > maxManifestBytes) throw otherVersion();
    const end = value.indexOf("\n");
    read.push(end < 0 ? value : value.subarray(0, end));
    size += value.length;
    if (end < 0) continue;
    const rest = async function* () {
      yield value.subarray(end + 1);
      yield* chunks;
    };
    return { line: Buffer.concat(read).toString(), rest: rest() };
  }
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch (cause) {
    throw otherVersion(cause);
  }
}

export const otherVersion = (cause?: unknown) =>
  new BackupRefused("The backup was made by another version of Stoker. Restore it with that version.", { cause });

// Readable.toWeb of Node 24 throws outside of any promise when its reader stops early.
const streamOf = (chunks: AsyncIterable<Uint8Array>) =>
  ReadableStream.from(chunks) as globalThis.ReadableStream<Uint8Array>;

type Count = ReturnType<typeof counting>;

function counting() {
  const hash = createHash("sha256");
  let sizeBytes = 0;
  return {
    async *through(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
      for await (const chunk of chunks) {
        hash.update(chunk);
        sizeBytes += chunk.length;
        yield chunk;
      }
    },
    written: (): Written => ({ sha256: hash.digest("hex"), sizeBytes }),
  };
}
