// Repositories of ModelScope, by its documented HTTP API: a list with the sha256 of each file, and downloads by path.

import { createHash } from "node:crypto";
import { type ByteRange, rangeHeaders } from "./download.ts";
import { chooseFrom, pinnedContent, type Resolve } from "./repository.ts";
import { isFileSize, isPlainPath, type SourceOfKind } from "./source.ts";
import type { Web, WebAnswer } from "./web.ts";
import { WeightsError, type WeightsErrorCode } from "./weights-error.ts";

type ModelScopeSource = SourceOfKind<"modelscope">;

const setting = "MODELSCOPE_ENDPOINT";
const listLimitBytes = 32 * 1024 * 1024;

interface ListedFile {
  readonly path: string;
  readonly sizeBytes: number;
  readonly sha256: string;
}

/** `endpoint`: origin of ModelScope or a mirror. */
export function createResolveModelScope(web: Web, endpoint: string, isOffline: boolean): Resolve<ModelScopeSource> {
  const base = endpoint.replace(/\/+$/, "");
  return async (source, signal) => {
    const { repo } = source.address;
    const authorization = source.token === undefined ? undefined : `Bearer ${source.token}`;
    if (isOffline)
      throw failed(
        "hub_unreachable",
        `${source.repo} is not in this host's cache and HF_HUB_OFFLINE is set. Fetch it beforehand, or unset HF_HUB_OFFLINE.`,
        true,
      );

    const ask = async (url: URL, headers: Readonly<Record<string, string>>, inner: AbortSignal): Promise<WebAnswer> => {
      const answer = await web.open({ method: "GET", url, headers, authorization, follow: "all", setting }, inner);
      if (answer.status < 300 || answer.status === 416) return answer;
      answer.body.on("error", () => {}).destroy();
      throw refusalOf(answer.status, source, url.host);
    };

    const query = new URLSearchParams({ Revision: source.revision, Recursive: "true" });
    const list = new URL(`${base}/api/v1/models/${repo}/repo/files?${query}`);
    const all = readList(await web.text(await ask(list, {}, signal), listLimitBytes), source, list.host);
    const { chosen, entry } = chooseFrom(source, all);
    const files = chosen.map(({ path, sha256, sizeBytes }) => ({
      path,
      content: pinnedContent(source, chosen, { key: sha256, sha256, gitSha1: undefined, sizeBytes }),
      open: (range: ByteRange, inner: AbortSignal) => {
        const at = new URLSearchParams({ Revision: source.revision, FilePath: path });
        return ask(new URL(`${base}/api/v1/models/${repo}/repo?${at}`), rangeHeaders(range), inner);
      },
    }));
    // The list names no commit of the whole repository: its files name their version.
    const parts = chosen.flatMap(({ path, sha256 }) => [path, sha256]);
    const commit = createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 40);
    return { commit, files, entry };
  };
}

function readList(text: string, source: ModelScopeSource, host: string): readonly ListedFile[] {
  let body: { Code?: unknown; Data?: { Files?: unknown } | null } | null;
  try {
    body = JSON.parse(text);
  } catch {
    throw failed("hub_failed", `${host} does not speak the protocol of ModelScope. Check ${setting}.`, false);
  }
  const list = body?.Data?.Files;
  if (body?.Code !== 200 || !Array.isArray(list)) throw refusalOf(404, source, host);
  return list.flatMap((one: { Type?: unknown; Path?: unknown; Size?: unknown; Sha256?: unknown }) => {
    const { Type, Path, Size, Sha256 } = one ?? {};
    const isFile = Type === "blob" && typeof Path === "string" && isPlainPath(Path);
    const isNamed = typeof Sha256 === "string" && /^[0-9a-f]{64}$/.test(Sha256);
    return isFile && isNamed && isFileSize(Size) ? [{ path: Path, sizeBytes: Size, sha256: Sha256 }] : [];
  });
}

function refusalOf(status: number, { repo, revision, token }: ModelScopeSource, host: string): WeightsError {
  const hint = token === undefined ? "or needs a token" : "or the token may not read it";
  if (status === 401 || status === 403 || status === 404)
    return failed(
      "hub_repo_not_found",
      `${host} shows no ${repo} at revision ${revision}: it does not exist, ${hint}.`,
      false,
    );
  if (status === 429)
    return failed("hub_rate_limited", `${host} limits requests. The download is retried automatically.`, true);
  return failed(
    "hub_failed",
    `${host} responded with ${status} for ${repo}. The download is retried automatically.`,
    status >= 500,
  );
}

const failed = (code: WeightsErrorCode, text: string, retryable: boolean) =>
  new WeightsError(code, text, { retryable });
