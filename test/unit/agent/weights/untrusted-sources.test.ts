// Servers that customers name send sizes, lists and challenges as they like.
import { Readable } from "node:stream";
import { afterEach, describe, expect, it, vi } from "vitest";
import { createReadAheadBudget, download } from "../../../../agent/weights/download.ts";
import { createResolveModelScope } from "../../../../agent/weights/modelscope.ts";
import { createNamedWeb } from "../../../../agent/weights/named-web.ts";
import { createResolveOci } from "../../../../agent/weights/oci.ts";
import { readLayers } from "../../../../agent/weights/oci-layers.ts";
import type { PublicWeb } from "../../../../agent/weights/public-web.ts";
import { createResolveS3 } from "../../../../agent/weights/s3.ts";
import { type SourceOfKind, sourceOf } from "../../../../agent/weights/source.ts";
import type { Web, WebAnswer } from "../../../../agent/weights/web.ts";

const digest = "a".repeat(64);
const signal = AbortSignal.timeout(30_000);
const rules = { allowsPrivate: false, blocked: [] };

type Handle = (url: URL, headers: Readonly<Record<string, string>>, authorization: string | undefined) => Reply;
interface Reply {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly text?: string;
}

const answerOf = (url: URL, { status = 200, headers = {}, text = "" }: Reply): WebAnswer => ({
  status,
  url,
  header: (name) => headers[name],
  body: Readable.from([Buffer.from(text)]),
});

/** The two ways of a request: `operator` for the origins of the settings, `customer` for all others. */
function namedWeb(operator: Handle, customer: Handle, trusted: readonly string[] = []) {
  const web: Web = {
    open: async ({ url, headers = {}, authorization }) => answerOf(url, operator(url, headers, authorization)),
    text: async ({ body }) => Buffer.concat(await body.toArray()).toString(),
    close: async () => {},
  };
  const publicWeb: PublicWeb = {
    open: async (url, headers, authorization) => answerOf(url, customer(url, headers, authorization)),
    close: async () => {},
  };
  return { web, named: createNamedWeb(web, publicWeb, rules, trusted) };
}

const never: Handle = (url) => {
  throw new Error(`${url.href} was requested`);
};
const source = <K extends "s3" | "oci" | "modelscope">(repo: string, token = ""): SourceOfKind<K> =>
  sourceOf({ repo, token }) as SourceOfKind<K>;

describe("a size that no file can have", () => {
  const listed = (size: string) =>
    `<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><IsTruncated>false</IsTruncated><Contents><Key>p/m.gguf</Key><ETag>"a"</ETag><Size>${size}</Size></Contents></ListBucketResult>`;

  it.each(["NaN", "Infinity", "-5", "100000000000000000000"])("refuses the list of a bucket with %s", async (size) => {
    const { named } = namedWeb(never, () => ({ text: listed(size) }));
    const found = createResolveS3(named, undefined)(source("s3://bkt/p", "AK:SK"), signal);
    await expect(found).rejects.toMatchObject({ code: "hub_failed", retryable: false });
  });

  it.each([-5, 1.5, 1e20])("leaves the layer with %d out", (size) => {
    const layer = { mediaType: "application/vnd.ollama.image.model", digest: `sha256:${digest}`, size };
    expect(readLayers("r", [layer])).toEqual([]);
  });

  it.each([-5, 1.5, 1e20])("leaves the file of ModelScope with %d out", async (Size) => {
    const Files = [{ Type: "blob", Path: "m.gguf", Size, Sha256: digest }];
    const { web } = namedWeb(() => ({ text: JSON.stringify({ Code: 200, Data: { Files } }) }), never);
    const found = createResolveModelScope(web, "https://scope.example", false)(source("modelscope://a/b"), signal);
    await expect(found).rejects.toMatchObject({ code: "weights_unsupported" });
  });

  it.each([Number.NaN, Number.POSITIVE_INFINITY, -5, 1e20])(
    "ends a download of %d bytes unopened",
    async (sizeBytes) => {
      const open = vi.fn();
      const content = { key: digest, sha256: digest, gitSha1: undefined, sizeBytes };
      const request = {
        folder: "/nowhere",
        content,
        sources: [{ name: "s3", open } as const],
        setting: "",
        needSpace: async () => {},
        arrived: async () => false,
        onProgress: () => {},
        onBytes: () => {},
        readAheadBudget: createReadAheadBudget(),
      };
      await expect(download(request, signal)).rejects.toMatchObject({ code: "hub_checksum_mismatch" });
      expect(open).not.toHaveBeenCalled();
    },
  );
});

describe("a bucket without credentials", () => {
  afterEach(() => vi.unstubAllEnvs());

  it("is listed unsigned on a host that has no credentials of AWS", async () => {
    for (const name of ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"]) vi.stubEnv(name, undefined);
    for (const name of ["AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"]) vi.stubEnv(name, "/dev/null");
    vi.stubEnv("AWS_EC2_METADATA_DISABLED", "true");
    const seen: string[] = [];
    const text = `<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><IsTruncated>false</IsTruncated><Contents><Key>p/m.gguf</Key><ETag>"a"</ETag><Size>7</Size></Contents></ListBucketResult>`;
    const { named } = namedWeb(never, (_, headers, authorization) => {
      seen.push(...Object.keys(headers), ...(authorization === undefined ? [] : [authorization]));
      return { text };
    });
    const { files } = await createResolveS3(named, undefined)(source("s3://bkt/p"), signal);
    expect(files).toMatchObject([{ path: "m.gguf", content: { sizeBytes: 7 } }]);
    expect(seen.filter((name) => /auth|token|none/i.test(name))).toEqual([]);
  });
});

describe("a registry that names its token server", () => {
  const inside = "http://inside.example:8000";
  const challenge = { "www-authenticate": `Bearer realm="${inside}/admin?x=1"` };
  const registry: Handle = (url, _, authorization) => {
    if (url.pathname.startsWith("/admin")) return { text: '{"token":"inner"}' };
    return authorization === undefined ? { status: 401, headers: challenge } : { status: 404 };
  };

  it("reaches no origin of the operator's settings unless it is one", async () => {
    const customer: Handle = (url, ...more) => (url.origin === inside ? { status: 502 } : registry(url, ...more));
    const { named } = namedWeb(never, customer, [inside]);
    const found = createResolveOci(named)(source("oci://evil.example/a/m:1"), signal);
    await expect(found).rejects.toMatchObject({ code: "hub_failed" });
  });

  it("reaches another origin of the settings if the registry is one too", async () => {
    const asked: string[] = [];
    const operator: Handle = (url, headers, authorization) => {
      asked.push(`${url.origin} ${authorization}`);
      return registry(url, headers, authorization);
    };
    const { named } = namedWeb(operator, never, [inside, "http://own.example"]);
    const found = createResolveOci(named)(source("oci://own.example/a/m:1"), signal);
    await expect(found).rejects.toMatchObject({ code: "hub_repo_not_found" });
    expect(asked).toEqual(["http://own.example undefined", `${inside} undefined`, "http://own.example Bearer inner"]);
  });
});
