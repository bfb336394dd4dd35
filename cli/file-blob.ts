import { openAsBlob } from "node:fs";
import { CliError, exitCode } from "./cli-error.ts";

/** A file for a form, read while it is sent. Throws CliError. */
export async function fileBlob(path: string): Promise<Blob> {
  try {
    return await openAsBlob(path);
  } catch (cause) {
    throw new CliError(`${path} cannot be read.`, exitCode.wrongUsage, { cause });
  }
}
