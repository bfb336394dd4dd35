// The hub protocol: a branch is resolved to its commit once, and everything after is fetched by commit.
import { isPart, type RepoFile, refuseOtherFormats } from "./choose-file.ts";
import type { Content } from "./download.ts";
import { createHubClient, type HubClient, type HubOptions, type HubSource } from "./hub-client.ts";
import { chooseFrom, type Found, type FoundFile } from "./repository.ts";
import { isFileSize, isPlainPath, type Pinned } from "./source.ts";
import type { Web, WebAnswer } from "./web.ts";
import { WeightsError } from "./weights-error.ts";

/** Resolves the files to download; downloads nothing. */
export async function resolveHub(
  web: Web,
  source: HubSource,
  options: HubOptions,
  signal: AbortSignal,
): Promise<Found> {
  const hub = createHubClient(web, source, options);
  // One file needs no list.
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
  const { chosen, entry } = chooseFrom(source, all);
  return { commit, files: await withContents(hub, commit, source, chosen, signal), entry };
}

/** Requests missing content of each file; always of the largest one, because only that reply shows who may read the repository. */
async function withContents(
  hub: HubClient,
  commit: string,
  source: HubSource,
  chosen: readonly HubEntry[],
  signal: AbortSignal,
): Promise<readonly FoundFile[]> {
  const largest = chosen.reduce((a, b) => ((b.sizeBytes ?? 0) > (a.sizeBytes ?? 0) ? b : a), chosen[0] as HubEntry);
  const pinned = chosen.length === 1 ? source : { sha256: undefined, sizeBytes: undefined };
  const files: FoundFile[] = [];
  for (const entry of chosen) {
    const listed = entry === largest ? undefined : contentOf(entry);
    const content = listed ?? headContent(await hub.head(commit, entry.path, signal), source.repo, pinned, entry);
    files.push(fileOf(hub, commit, entry.path, content));
  }
  return files;
}

function fileOf(hub: HubClient, commit: string, path: string, content: Content): FoundFile {
  return { path, content, open: (range, signal) => hub.get(commit, path, range, signal) };
}

function commitIn(value: unknown): string | undefined {
  return typeof value === "string" && /^[0-9a-f]{40}$/.test(value) ? value : undefined;
}

interface HubEntry extends RepoFile {
  /** Sha256 of a large file. */
  readonly sha256: string | undefined;
  /** Git's hash of a small file. */
  readonly gitSha1: string | undefined;
}

interface TreeLine {
  readonly type?: unknown;
  readonly path?: unknown;
  readonly size?: unknown;
  readonly oid?: unknown;
  readonly lfs?: { readonly oid?: unknown; readonly size?: unknown } | null;
}

const maxPages = 20;

/** Returns every file whose name is a safe path; follows the list's pages only on the hub's own host. */
async function readTree(hub: HubClient, commit: string, signal: AbortSignal): Promise<HubEntry[]> {
  const files: HubEntry[] = [];
  let next: string | undefined = hub.treeUrl(commit);
  for (let page = 0; next !== undefined && page < maxPages; page++) {
    const { answer, value } = await hub.json(next, signal);
    for (const line of Array.isArray(value) ? (value as TreeLine[]) : []) {
      const entry = hubEntryOf(line);
      if (entry) files.push(entry);
    }
    const link = /<([^>]+)>\s*;\s*rel="?next"?/.exec(answer.header("link") ?? "")?.[1];
    const url: URL | undefined = link && URL.canParse(link, answer.url) ? new URL(link, answer.url) : undefined;
    next = url?.origin === answer.url.origin ? url.href : undefined;
  }
  return files;
}

function hubEntryOf(line: TreeLine): HubEntry | undefined {
  if (typeof line.path !== "string" || line.type === "directory" || !isPlainPath(line.path)) return undefined;
  const { lfs } = line;
  return {
    path: line.path,
    sizeBytes: sizeIn(lfs?.size) ?? sizeIn(line.size),
    sha256: hexIn(lfs?.oid, 64),
    // For a large file this is the hash of its pointer.
    gitSha1: lfs ? undefined : hexIn(line.oid, 40),
  };
}

/** Undefined if the list has no hash: then the file's own headers have it. */
function contentOf(entry: HubEntry): Content | undefined {
  const { sha256, gitSha1, sizeBytes } = entry;
  if (sha256 !== undefined) return { key: sha256, sha256, gitSha1: undefined, sizeBytes };
  if (gitSha1 === undefined || sizeBytes === undefined) return undefined;
  return { key: gitSha1, sha256: undefined, gitSha1, sizeBytes };
}

/** 64 hexadecimal digits are the sha256 of a large file, 40 the git hash of a small one. */
function headContent(head: WebAnswer, repo: string, pinned: Pinned, listed?: HubEntry): Content {
  const tag = (head.header("x-linked-etag") ?? head.header("etag") ?? "").replace(/^W\//, "").replaceAll('"', "");
  const size = head.header("x-linked-size") ?? (head.status < 300 ? head.header("content-length") : undefined);
  const sizeBytes = sizeIn(Number(size ?? Number.NaN)) ?? listed?.sizeBytes ?? pinned.sizeBytes;
  const sha256 = hexIn(tag, 64) ?? (hexIn(tag, 40) === undefined ? listed?.sha256 : undefined);
  if (pinned.sha256 !== undefined && sha256 !== undefined && pinned.sha256 !== sha256) {
    const text = `The file in ${repo} is not the one the deployment pins: its sha256 is ${sha256} instead of ${pinned.sha256}; correct the hash, or pin the revision that has it.`;
    throw new WeightsError("hub_checksum_mismatch", text, { retryable: false });
  }
  const wanted = pinned.sha256 ?? sha256;
  if (wanted !== undefined) return { key: wanted, sha256: wanted, gitSha1: undefined, sizeBytes };
  const gitSha1 = hexIn(tag, 40);
  if (gitSha1 !== undefined && sizeBytes !== undefined) return { key: gitSha1, sha256: undefined, gitSha1, sizeBytes };
  const text = `The hub names no checksum for the file in ${repo}: give its sha256 in the deployment, or use another hub.`;
  throw new WeightsError("hub_failed", text, { retryable: false });
}

function hexIn(value: unknown, digits: number): string | undefined {
  return typeof value === "string" && value.length === digits && /^[0-9a-f]+$/.test(value) ? value : undefined;
}

function sizeIn(value: unknown): number | undefined {
  return isFileSize(value) ? value : undefined;
}
