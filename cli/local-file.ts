// Local files of a command. Failures are CliErrors with the reason.
import { createWriteStream, mkdirSync, openAsBlob, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { CliError, exitCode } from "./cli-error.ts";

/** Reads a file, or standard input for `-`. Throws CliError. */
export function readLocalFile(path: string): Buffer {
  try {
    return readFileSync(path === "-" ? 0 : path);
  } catch (cause) {
    throw new CliError(unreadable(path, cause), exitCode.wrongUsage, { cause });
  }
}

/** File for a form, read while it is sent. Throws CliError. */
export async function localBlob(path: string): Promise<Blob> {
  try {
    // openAsBlob accepts a folder and fails only while it is sent.
    if (statSync(path).isDirectory()) throw Object.assign(new Error("a folder"), { code: "EISDIR" });
    return await openAsBlob(path);
  } catch (cause) {
    throw new CliError(unreadable(path, cause), exitCode.wrongUsage, { cause });
  }
}

/** Creates missing parent folders. Throws CliError. */
export function writeLocalFile(path: string, bytes: Buffer): void {
  try {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, bytes);
  } catch (cause) {
    throw unwritable(path, cause);
  }
}

/** Throws CliError for a failure of the file; rethrows failures of `bytes` unchanged. */
export async function streamToLocalFile(path: string, bytes: Readable): Promise<void> {
  try {
    await pipeline(bytes, createWriteStream(path));
  } catch (cause) {
    throw isFileError(cause) ? unwritable(path, cause) : cause;
  }
}

const unwritable = (path: string, cause: unknown): CliError =>
  new CliError(`Could not write ${path}: ${reasonOf(cause)}.`, exitCode.failed, { cause });

/** Message for a file that could not be read. */
export const unreadable = (path: string, cause: unknown): string =>
  `Could not read ${path === "-" ? "standard input" : path}: ${reasonOf(cause)}.`;

const reasons: Readonly<Record<string, string>> = {
  ENOENT: "no such file or folder",
  ENOTDIR: "part of the path is not a folder",
  EISDIR: "it is a folder",
  EACCES: "permission denied",
  EPERM: "permission denied",
  EROFS: "read-only file system",
  ENOSPC: "no space left on the device",
};

const isFileError = (cause: unknown): boolean => codeOf(cause) in reasons;

const codeOf = (cause: unknown): string => (cause as NodeJS.ErrnoException | undefined)?.code ?? "";
const reasonOf = (cause: unknown): string => reasons[codeOf(cause)] ?? (cause as Error).message;
