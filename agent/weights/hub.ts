// The hub protocol: a branch is resolved to its commit once, and everything after is fetched by commit.
import { chooseFile, type RepoFile, refuseOtherFormats } from "./choose-file.ts";
import type { Content } from "./download.ts";
import { hubRefusal } from "./hub-refusal.ts";
import type { Source } from "./source.ts";
import type { Web, WebAnswer, WebRequest } from "./web.ts";
import { WeightsError } from "./weights-error.ts";

export type HubSource = Extract<Source, { kind: "hub" }>;

export interface HubOptions {
  readonly endpoint: string;
  /** Used where the deployment brings no token of its own. */
  readonly token: string | undefined;
}

export interface HubFile {
  readonly commit: string;
  readonly path: string;
  readonly content: Content;
  open(from: number, signal: AbortSignal): Promise<WebAnswer>;
}

const setting = "HF_ENDPOINT";
const maxPages = 20;

/** Asks the hub what to download; downloads nothing. */
export async function resolveHubFile(
  web: Web,
  source: HubSource,
  options: HubOptions,
  signal: AbortSignal,
): Promise<HubFile> {
  const token = source.token ?? options.token;
  const authorization = token === undefined ? undefined : `Bearer ${token}`;
  const base = options.endpoint.replace(/\/+$/, "");
  const asked = { repo: source.repo, revision: source.revision, file: source.file, hasToken: token !== undefined };
  const ask = async (method: "GET" | "HEAD", path: string, more: Partial<WebRequest>): Promise<WebAnswer> => {
    const url = new URL(path, `${base}/`);
    const answer = await web.open({ method, url, authorization, follow: "all", setting, ...more }, signal);
    const isFine = answer.status < 300 || (more.follow === "relative" && answer.status < 400);
    if (isFine) return answer;
    answer.body.on("error", () => {}).destroy();
    throw hubRefusal(answer, asked);
  };
  const json = async (path: string): Promise<{ answer: WebAnswer; value: unknown }> => {
    const answer = await ask("GET", path, {});
    try {
      return { answer, value: JSON.parse(await web.text(answer, 32 * 1024 * 1024)) };
    } catch (error) {
      throw error instanceof WeightsError ? error : notAHub(base);
    }
  };

  let revision = source.revision;
  let path = source.file;
  if (path === undefined) {
    const info = await json(`${base}/api/models/${source.repo}/revision/${encodeURIComponent(revision)}`);
    revision = commitIn((info.value as { sha?: unknown } | null)?.sha) ?? revision;
    path = chooseFile(source.repo, await listFiles(json, `${base}/api/models/${source.repo}/tree/${revision}`));
  } else refuseOtherFormats(source.repo, path);

  const inRepo = path.split("/").map(encodeURIComponent).join("/");
  const at = (commit: string): string => `${base}/${source.repo}/resolve/${encodeURIComponent(commit)}/${inRepo}`;
  const head = await ask("HEAD", at(revision), { follow: "relative" });
  head.body.on("error", () => {}).resume();
  const commit = commitIn(head.header("x-repo-commit")) ?? revision;
  const content = contentOf(head, source);
  return {
    commit,
    path,
    content,
    async open(from, inner) {
      const headers: Record<string, string> = from > 0 ? { range: `bytes=${from}-` } : {};
      const url = new URL(at(commit));
      const answer = await web.open({ method: "GET", url, authorization, follow: "all", setting, headers }, inner);
      if (answer.status < 300 || answer.status === 416) return answer;
      answer.body.on("error", () => {}).destroy();
      throw hubRefusal(answer, { ...asked, file: path });
    },
  };
}

async function listFiles(
  json: (path: string) => Promise<{ answer: WebAnswer; value: unknown }>,
  first: string,
): Promise<RepoFile[]> {
  const files: RepoFile[] = [];
  let next: string | undefined = `${first}?recursive=true`;
  for (let page = 0; next !== undefined && page < maxPages; page++) {
    const { answer, value } = await json(next);
    const origin = answer.url.origin;
    for (const entry of Array.isArray(value) ? (value as { type?: string; path?: string; size?: number }[]) : [])
      if (typeof entry.path === "string" && entry.type !== "directory")
        files.push({ path: entry.path, sizeBytes: typeof entry.size === "number" ? entry.size : undefined });
    const link = /<([^>]+)>\s*;\s*rel="?next"?/.exec(answer.header("link") ?? "")?.[1];
    const url: URL | undefined = link && URL.canParse(link, answer.url) ? new URL(link, answer.url) : undefined;
    next = url?.origin === origin ? url.href : undefined;
  }
  return files;
}

/** 64 hexadecimal digits are the sha256 of a large file, 40 the git hash of a small one. */
function contentOf(head: WebAnswer, source: HubSource): Content {
  const tag = (head.header("x-linked-etag") ?? head.header("etag") ?? "").replace(/^W\//, "").replaceAll('"', "");
  const size = Number(head.header("x-linked-size") ?? (head.status < 300 ? head.header("content-length") : undefined));
  const sizeBytes = Number.isSafeInteger(size) && size > 0 ? size : source.sizeBytes;
  const sha256 = /^[0-9a-f]{64}$/.test(tag) ? tag : undefined;
  if (source.sha256 !== undefined && sha256 !== undefined && source.sha256 !== sha256) {
    const text = `The file in ${source.repo} is not the one the deployment pins: its sha256 is ${sha256} and ${source.sha256} was asked for; correct the hash, or pin the revision that has it.`;
    throw new WeightsError("hub_checksum_mismatch", text, { retryable: false });
  }
  const wanted = source.sha256 ?? sha256;
  if (wanted !== undefined) return { key: wanted, sha256: wanted, gitSha1: undefined, sizeBytes };
  if (/^[0-9a-f]{40}$/.test(tag)) return { key: tag, sha256: undefined, gitSha1: tag, sizeBytes };
  const text = `The hub names no checksum for the file in ${source.repo}: give its sha256 in the deployment, or use another hub.`;
  throw new WeightsError("hub_failed", text, { retryable: false });
}

function commitIn(value: unknown): string | undefined {
  return typeof value === "string" && /^[0-9a-f]{40}$/.test(value) ? value : undefined;
}

function notAHub(base: string): WeightsError {
  const text = `${new URL(base).host} does not speak the hub protocol: check ${setting}.`;
  return new WeightsError("hub_failed", text, { retryable: false });
}
