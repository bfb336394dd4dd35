// Weights in a bucket of Amazon S3 or a compatible store. The client signs and parses; the requests go through the connections
// that judge addresses. Only the deployment's credentials are used, never those of this host: a customer could otherwise name a
// bucket of the operator.
import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import {
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  S3Client,
  type S3ClientConfig,
} from "@aws-sdk/client-s3";
import { s3ClientOptions } from "../../proto/s3-settings.ts";
import type { RepoFile } from "./choose-file.ts";
import { type ByteRange, type Content, rangeHeaders } from "./download.ts";
import type { NamedWeb } from "./named-web.ts";
import { chooseFrom, namedContent, pinnedContent, type Resolve } from "./repository.ts";
import { isFileSize, isPlainPath, type SourceOfKind } from "./source.ts";
import type { WebAnswer } from "./web.ts";
import { WeightsError, type WeightsErrorCode } from "./weights-error.ts";

type S3Source = SourceOfKind<"s3">;

interface S3File extends RepoFile {
  readonly key: string;
  readonly sizeBytes: number;
  readonly tag: string;
  readonly hasSha256: boolean;
}

const maxPages = 20;
const maxFiles = maxPages * 1000;
/** A page has at most 1000 names of 1024 bytes, escaped. */
const listBytes = 8 * 1024 * 1024;
const errorBytes = 64 * 1024;
/** Without credentials the client looks for those of this host, although the signer uses none. */
const unsigned: Pick<S3ClientConfig, "signer" | "credentials"> = {
  signer: { sign: async (request) => request },
  credentials: { accessKeyId: "none", secretAccessKey: "none" },
};
const defaultRegion = "us-east-1";

/** `endpoint`: of addresses without one; undefined: Amazon's. */
export function createResolveS3(web: NamedWeb, endpoint: string | undefined): Resolve<S3Source> {
  return async (source, signal) => {
    const { bucket, prefix } = source.address;
    const store = createStore(web, source, endpoint);
    const all = await store.list(bucket, prefix, signal);
    if (all.length === 0)
      throw refusal("hub_repo_not_found", `${source.repo} has no objects. Check the bucket and the prefix.`);
    const { chosen, entry } = chooseFrom(source, all);
    const commit = digest(
      store.origin,
      bucket,
      ...chosen.flatMap(({ key, tag, sizeBytes }) => [key, tag, `${sizeBytes}`]),
    );
    const files = [];
    for (const file of chosen) {
      const listed = await store.content(bucket, file, signal);
      files.push({
        path: file.path,
        content: pinnedContent(source, chosen, listed),
        open: (range: ByteRange, inner: AbortSignal) => store.get(bucket, file, range, inner),
      });
    }
    return { commit: commit.slice(0, 40), files, entry };
  };
}

function createStore(web: NamedWeb, source: S3Source, defaultEndpoint: string | undefined) {
  const credentials = credentialsOf(source);
  const region = source.address.region ?? defaultRegion;
  const endpoint = source.address.endpoint ?? defaultEndpoint;
  if (source.address.endpoint !== undefined) web.check(source.address.endpoint);
  const replies = new WeakMap<object, WebAnswer>();
  const client = new S3Client({
    ...s3ClientOptions({ bucket: "", prefix: "", region, endpoint, credentials }),
    ...(credentials === undefined ? unsigned : {}),
    maxAttempts: 1,
    followRegionRedirects: endpoint === undefined,
    requestHandler: {
      async handle(request: Wire, { abortSignal }: { readonly abortSignal?: AbortSignal } = {}) {
        const signal = abortSignal ?? AbortSignal.timeout(60_000);
        const { host: _, ...headers } = request.headers;
        // A redirect would need another signature.
        const method = request.method === "HEAD" ? "HEAD" : "GET";
        const asked = { method, headers, authorization: undefined, follows: false } as const;
        const answer = await web.open(urlOf(request), asked, signal);
        const names = [
          "content-type",
          "content-length",
          "content-range",
          "etag",
          "x-amz-bucket-region",
          "x-amz-checksum-sha256",
          "x-amz-checksum-type",
        ];
        const found = names.flatMap((name) => (answer.header(name) === undefined ? [] : [[name, answer.header(name)]]));
        const isObject = request.query?.["x-id"] === "GetObject" && (answer.status === 200 || answer.status === 206);
        // The client reads every other body whole.
        const body = isObject
          ? answer.body
          : Readable.from([Buffer.from(await web.text(answer, answer.status < 300 ? listBytes : errorBytes))]);
        replies.set(body, answer);
        return { response: { statusCode: answer.status, headers: Object.fromEntries(found), body } };
      },
    },
  });
  const send = async <T>(call: () => Promise<T>): Promise<T> => {
    try {
      return await call();
    } catch (error) {
      throw converted(error, source);
    }
  };

  return {
    origin: endpoint ?? "aws",
    async list(bucket: string, prefix: string, signal: AbortSignal): Promise<readonly S3File[]> {
      const files: S3File[] = [];
      let next: string | undefined;
      for (let page = 0; page < maxPages; page++) {
        const command = new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix, ContinuationToken: next });
        const { Contents = [], NextContinuationToken } = await send(() =>
          client.send(command, { abortSignal: signal }),
        );
        for (const { Key = "", Size, ETag = "", ChecksumAlgorithm = [] } of Contents) {
          const path = pathIn(prefix, Key);
          // The client's parser accepts NaN and Infinity.
          if (!isFileSize(Size))
            throw failed(
              `The store of ${source.repo} lists an object without a valid size. Check the endpoint.`,
              false,
            );
          const hasSha256 = ChecksumAlgorithm.includes("SHA256");
          if (path !== undefined) files.push({ path, key: Key, sizeBytes: Size, tag: ETag, hasSha256 });
        }
        next = NextContinuationToken;
        if (files.length > maxFiles) break;
        if (next === undefined) return files;
      }
      throw refusal("weights_unsupported", `${source.repo} has more than ${maxFiles} objects. Name a longer prefix.`);
    },
    /** With the object's sha256 where the store has it for the whole object; otherwise named by its version. */
    async content(bucket: string, { key, tag, sizeBytes, hasSha256 }: S3File, signal: AbortSignal): Promise<Content> {
      if (hasSha256) {
        const command = new HeadObjectCommand({ Bucket: bucket, Key: key, ChecksumMode: "ENABLED" });
        const head = await send(() => client.send(command, { abortSignal: signal }));
        const hex = Buffer.from(head.ChecksumSHA256 ?? "", "base64").toString("hex");
        // A checksum of parts has their number behind a dash.
        if (hex.length === 64 && !head.ChecksumSHA256?.includes("-"))
          return source.address.endpoint === undefined
            ? { key: hex, sha256: hex, gitSha1: undefined, sizeBytes }
            : namedContent(source.address.endpoint, source.token, hex, sizeBytes);
      }
      // With the credentials: a file that one customer may read is not looked up for another.
      const version = digest(endpoint ?? "aws", bucket, key, tag, `${sizeBytes}`, source.token ?? "");
      return { key: version, sha256: undefined, gitSha1: undefined, sizeBytes, version };
    },
    async get(bucket: string, { key, tag }: S3File, range: ByteRange, signal: AbortSignal): Promise<WebAnswer> {
      const { range: Range } = rangeHeaders({ ...range, tag: undefined });
      // Another object under the same key is refused: its bytes must not follow those of this one.
      const command = new GetObjectCommand({ Bucket: bucket, Key: key, IfMatch: tag || undefined, Range });
      const { Body } = await send(() => client.send(command, { abortSignal: signal }));
      const answer = Body && replies.get(Body);
      if (!answer) throw refusal("hub_failed", `${source.repo} was answered without content.`);
      return answer;
    },
  };
}

interface Wire {
  readonly method: string;
  readonly protocol: string;
  readonly hostname: string;
  readonly port?: number | undefined;
  readonly path: string;
  readonly query?: Readonly<Record<string, string | readonly string[] | null>>;
  readonly headers: Readonly<Record<string, string>>;
}

function urlOf({ protocol, hostname, port, path, query = {} }: Wire): URL {
  const escaped = (text: string) =>
    encodeURIComponent(text).replace(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value ?? ""]).map((one: string) => `${escaped(name)}=${escaped(one)}`),
  );
  const suffix = pairs.length === 0 ? "" : `?${pairs.join("&")}`;
  return new URL(`${protocol}//${hostname}${port === undefined ? "" : `:${port}`}${path}${suffix}`);
}

/** Path of an object below the prefix; the name of the object itself if the prefix is its key. */
function pathIn(prefix: string, key: string): string | undefined {
  const path =
    key === prefix
      ? key.split("/").at(-1)
      : prefix === ""
        ? key
        : key.startsWith(`${prefix}/`)
          ? key.slice(prefix.length + 1)
          : "";
  return path && isPlainPath(path) ? path : undefined;
}

/** `ACCESS_KEY_ID:SECRET_ACCESS_KEY`, and `:SESSION_TOKEN` if temporary. Undefined: requests are not signed. */
function credentialsOf({ token }: S3Source) {
  if (token === undefined) return undefined;
  const [, accessKeyId, secretAccessKey, sessionToken] = /^([^:\s]+):([^:\s]+)(?::([^:\s]+))?$/.exec(token) ?? [];
  if (accessKeyId === undefined || secretAccessKey === undefined)
    throw refusal(
      "weights_invalid",
      "Credentials of an s3:// address must have the form ACCESS_KEY_ID:SECRET_ACCESS_KEY, with :SESSION_TOKEN if they are temporary.",
    );
  return { accessKeyId, secretAccessKey, ...(sessionToken === undefined ? {} : { sessionToken }) };
}

function converted(error: unknown, { repo, token }: S3Source): unknown {
  if (error instanceof WeightsError) return error;
  const { name, $metadata } = error as { name?: string; $metadata?: { httpStatusCode?: number } };
  const status = $metadata?.httpStatusCode;
  if (status === undefined) return error;
  if (status === 401 || status === 403)
    return refusal(
      "source_denied",
      `${repo} may not be read ${token === undefined ? "without credentials" : "with these credentials"} (${name ?? status}). Give credentials that may list and get its objects.`,
    );
  if (status === 404)
    return refusal(
      "hub_repo_not_found",
      `${repo} does not exist (${name ?? status}). Check the bucket, the prefix and the endpoint.`,
    );
  if (status === 412)
    return failed(`An object of ${repo} was replaced during the download. It is retried automatically.`, true);
  if (status === 301 || status === 307 || status === 400)
    return failed(
      `The store refused ${repo} (${name ?? status}). Check the region and the credentials: s3://bucket/prefix?region=eu-west-1.`,
      false,
    );
  return failed(
    `The store of ${repo} responded with ${status}. The download is retried automatically.`,
    status >= 500 || status === 429,
  );
}

const digest = (...parts: readonly string[]): string =>
  createHash("sha256").update(JSON.stringify(parts)).digest("hex");

const refusal = (code: WeightsErrorCode, text: string) => new WeightsError(code, text, { retryable: false });
const failed = (text: string, retryable: boolean) => new WeightsError("hub_failed", text, { retryable });
