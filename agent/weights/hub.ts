// The hub protocol: a branch is resolved to its commit once, and everything after is fetched by commit.

import { chooseModel, isPart, partsOf, refuseOtherFormats } from "./choose-file.ts";
import { chooseSnapshot } from "./choose-snapshot.ts";
import type { Content } from "./download.ts";
import { createHubClient, type HubClient, type HubOptions, type HubSource } from "./hub-client.ts";
import { contentOf, type HubEntry, headContent, readTree } from "./hub-content.ts";
import type { Web, WebAnswer } from "./web.ts";
import { WeightsError } from "./weights-error.ts";

export interface HubFile {
  readonly path: string;
  readonly content: Content;
  /** `tag`: ETag of an earlier reply, so that a range of another file is never used as the rest of this one. */
  open(from: number, tag: string | undefined, signal: AbortSignal): Promise<WebAnswer>;
}

export interface HubFound {
  readonly commit: string;
  /** In download order. */
  readonly files: readonly HubFile[];
  /** File that the engine opens; undefined: the folder. */
  readonly entry: string | undefined;
}

/** Resolves the files to download; downloads nothing. */
export async function resolveHub(
  web: Web,
  source: HubSource,
  options: HubOptions,
  signal: AbortSignal,
): Promise<HubFound> {
  const hub = createHubClient(web, source, options);
  const isOneFile = source.format === "gguf" && source.file !== undefined && !isPart(source.file);
  if (source.format === "gguf" && source.file !== undefined) refuseOtherFormats(source.repo, source.file);
  if (isOneFile) {
    const head = await hub.head(source.revision, source.file ?? "", signal);
    const commit = commitIn(head.header("x-repo-commit")) ?? source.revision;
    const content = headContent(head, source.repo, source);
    return { commit, files: [fileOf(hub, commit, source.file ?? "", content)], entry: source.file };
  }
  const info = await hub.json(hub.revisionUrl(source.revision), signal);
  const commit = commitIn((info.value as { sha?: unknown } | null)?.sha) ?? source.revision;
  const all = await readTree(hub, commit, signal);
  const chosen =
    source.format !== "gguf"
      ? chooseSnapshot(source.repo, source.format, source.file, all)
      : source.file === undefined
        ? chooseModel(source.repo, all)
        : partsOf(source.repo, source.file, all);
  const files = await withContents(hub, commit, source, chosen, signal);
  return { commit, files, entry: entryOf(source.format, chosen) };
}

/** An image adapter's file may have any name, beside others. */
function entryOf(format: HubSource["format"], chosen: readonly HubEntry[]): string | undefined {
  if (format === "gguf") return chosen[0]?.path;
  return format === "image_lora" ? chosen.at(-1)?.path : undefined;
}

/** Requests missing content of each file; always of the largest one, because only that reply shows who may read the repository. */
async function withContents(
  hub: HubClient,
  commit: string,
  source: HubSource,
  chosen: readonly HubEntry[],
  signal: AbortSignal,
): Promise<readonly HubFile[]> {
  const largest = chosen.reduce((a, b) => ((b.sizeBytes ?? 0) > (a.sizeBytes ?? 0) ? b : a), chosen[0] as HubEntry);
  const pinned = chosen.length === 1 ? source : { sha256: undefined, sizeBytes: undefined };
  const files: HubFile[] = [];
  for (const entry of chosen) {
    const listed = entry === largest ? undefined : contentOf(entry);
    const content = listed ?? headContent(await hub.head(commit, entry.path, signal), source.repo, pinned, entry);
    files.push(fileOf(hub, commit, entry.path, content));
  }
  return files;
}

function fileOf(hub: HubClient, commit: string, path: string, content: Content): HubFile {
  return { path, content, open: (from, tag, signal) => hub.get(commit, path, from, tag, signal) };
}

export function commitIn(value: unknown): string | undefined {
  return typeof value === "string" && /^[0-9a-f]{40}$/.test(value) ? value : undefined;
}

/** True if the hub is unavailable for now: a set that is already here may be used instead. */
export function isHubUnavailable(error: unknown): boolean {
  return error instanceof WeightsError && error.retryable;
}
