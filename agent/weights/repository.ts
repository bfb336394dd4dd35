// Files of a source that lists them (hub, bucket, registry): choice, identity and checks.
import { createHash } from "node:crypto";
import { chooseModel, chooseSnapshot, partsOf, type RepoFile, refuseOtherFormats } from "./choose-file.ts";
import type { Content, DownloadSource } from "./download.ts";
import type { RepositorySource } from "./source.ts";
import { WeightsError } from "./weights-error.ts";

export interface FoundFile extends Pick<DownloadSource, "open"> {
  readonly path: string;
  readonly content: Content;
}

export interface Found {
  /** Names this version of the files: the same commit has the same bytes. */
  readonly commit: string;
  readonly files: readonly FoundFile[];
  /** File that the engine opens; undefined: the folder. */
  readonly entry: string | undefined;
}

/** Resolves the files to download; downloads no weights. Throws WeightsError. */
export type Resolve<S extends RepositorySource = RepositorySource> = (source: S, signal: AbortSignal) => Promise<Found>;

/** Chooses files of a complete list by the format of the deployment. */
export function chooseFrom<F extends RepoFile>(
  { repo, format, file }: Pick<RepositorySource, "repo" | "format" | "file">,
  all: readonly F[],
): { readonly chosen: readonly F[]; readonly entry: string | undefined } {
  if (format !== "gguf") {
    const chosen = chooseSnapshot(repo, format, file, all);
    // An image adapter's file may have any name, beside others.
    return { chosen, entry: format === "image_lora" ? chosen.at(-1)?.path : undefined };
  }
  if (file !== undefined) refuseOtherFormats(repo, file);
  const chosen = file === undefined ? chooseModel(repo, all) : partsOf(repo, file, all);
  return { chosen, entry: chosen[0]?.path };
}

/** True if a source is unavailable for now: a set that is already here may be used instead. */
export function isUnavailable(error: unknown): boolean {
  return error instanceof WeightsError && error.retryable;
}

/** Throws when a deployment pins another digest than the source announces. Returns the content with the pinned one. */
export function pinnedContent(source: RepositorySource, files: readonly unknown[], content: Content): Content {
  const { sha256 } = source;
  if (sha256 === undefined || files.length !== 1) return content;
  if (content.sha256 !== undefined && content.sha256 !== sha256) {
    const text = `The file in ${source.repo} is not the one the deployment pins: its sha256 is ${content.sha256} instead of ${sha256}; correct the hash.`;
    throw new WeightsError("hub_checksum_mismatch", text, { retryable: false });
  }
  if (content.version !== undefined) return { ...content, sha256 };
  return { key: sha256, sha256, gitSha1: undefined, sizeBytes: content.sizeBytes };
}

/**
 * Content of a server that a customer names. Its digest only verifies the received bytes: what this server sent before under the
 * same credentials is found again, nothing else.
 */
export function namedContent(origin: string, token: string | undefined, sha256: string, sizeBytes: number): Content {
  const version = createHash("sha256")
    .update(JSON.stringify([origin, token ?? "", sha256]))
    .digest("hex");
  return { key: version, version, sha256, gitSha1: undefined, sizeBytes };
}
