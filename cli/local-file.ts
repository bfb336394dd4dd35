// Files of this machine that a command reads or writes: what goes wrong with one is a sentence that says why.
import { createWriteStream, mkdirSync, openAsBlob, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { CliError, exitCode } from "./cli-error.ts";

/** `path`: `-` is standard input. Throws CliError. */
export function readLocalFile(path: string): Buffer {
  try {
    return readFileSync(path === "-" ? 0 : path);
  } catch (cause) {
    throw new CliError(unreadable(path, cause), exitCode.wrongUsage, { cause });
  }
}

/** A file for a form, read while it is sent. Throws CliError. */
export async function localBlob(path: string): Promise<Blob> {
  try {
    // A folder opens as a blob of its own, and fails only while it is sent.
    if (statSync(path).isDirectory()) throw Object.assign(new Error("a folder"), { code: "EISDIR" });
    return await openAsBlob(path);
  } catch (cause) {
    throw new CliError(unreadable(path, cause), exitCode.wrongUsage, { cause });
  }
}

/** With the folders that lead to it. Throws CliError. */
export function writeLocalFile(path: string, bytes: Buffer): void {
  try {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, bytes);
  } catch (cause) {
    throw unwritable(path, cause);
  }
}

/** `bytes` may break for reasons of their own, which are thrown as they are. Throws CliError for those of the file. */
export async function streamToLocalFile(path: string, bytes: Readable): Promise<void> {
  try {
    await pipeline(bytes, createWriteStream(path));
  } catch (cause) {
    throw isOfFiles(cause) ? unwritable(path, cause) : cause;
  }
}

const unwritable = (path: string, cause: unknown): CliError =>
  new CliError(`${path} cannot be written: ${whyOf(cause)}.`, exitCode.failed, { cause });

/** The sentence for a file that could not be read. */
export const unreadable = (path: string, cause: unknown): string =>
  `${path === "-" ? "Standard input" : path} cannot be read: ${whyOf(cause)}.`;

const sentences: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file or folder",
  ENOTDIR: "a part of its path is no folder",
  EISDIR: "it is a folder; name a file",
  EACCES: "your user has no right to it",
  EPERM: "your user has no right to it",
  EROFS: "its disk takes no writes",
  ENOSPC: "the disk is full; make room and try again",
};

const isOfFiles = (cause: unknown): boolean => codeOf(cause) in sentences;

const codeOf = (cause: unknown): string => (cause as NodeJS.ErrnoException | undefined)?.code ?? "";
const whyOf = (cause: unknown): string => sentences[codeOf(cause)] ?? (cause as Error).message;
