// Weights in stores that are no hub: a real S3 server (moto), a real container registry, and shared folders.
import { createHash, randomBytes } from "node:crypto";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { startRegistry } from "../../docker/registry.ts";
import { startFileServer } from "../../fakes/file-server.ts";
import { startS3Server } from "../../fakes/s3-server.ts";
import { anySignal, type CacheWorld, refusal, startCacheWorld } from "./cache-world.ts";

const model = Buffer.concat([Buffer.from("GGUF"), randomBytes(3_000_000)]);
const config = Buffer.from('{"architectures":["LlamaForCausalLM"]}');
const nowhere = { url: "http://127.0.0.1:9" };
const sha256 = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");

let world: CacheWorld;
beforeEach(async () => {
  world = await startCacheWorld();
});
afterEach(() => world.end());

const s3 = await startS3Server();
if (!s3) console.warn("\n*** NOT PROVEN: weights from S3, because moto[server] is missing; scripts/test brings it\n");
afterAll(() => s3?.stop());

describe.skipIf(!s3)("weights in a bucket", () => {
  const endpoint = s3?.endpoint ?? "";
  const credentials = { accessKeyId: "test", secretAccessKey: "secret" };
  const client = new S3Client({ region: "us-east-1", endpoint, forcePathStyle: true, credentials });
  afterAll(() => client.destroy());
  const put = (Key: string, Body: Buffer, more = {}) =>
    client.send(new PutObjectCommand({ Bucket: "models", Key, Body, ...more }));
  const files = async () => {
    await s3?.makeBucket("models");
    await put("acme/tiny/tiny.Q4_K_M.gguf", model);
    await put("acme/tiny-other/other.gguf", config);
    await put("acme/whole/config.json", config);
    await put("acme/whole/model.safetensors", model, { ChecksumAlgorithm: "SHA256" });
  };
  const wanted = { repo: "s3://models/acme/tiny", token: "test:secret" };

  it("are found below the prefix, verified by size and version, and not fetched twice", async () => {
    await files();
    const bytes: [string, number][] = [];
    const onBytes = (name: string, count: number) => void bytes.push([name, count]);
    const store = world.store(nowhere, { s3Endpoint: endpoint, onBytes });
    const { modelPath, commit } = await store.ensure(wanted, () => {}, anySignal());
    expect(model.equals(await readFile(modelPath))).toBe(true);
    expect(modelPath).toMatch(/tiny\.Q4_K_M\.gguf$/);
    expect(bytes.reduce((sum, [, count]) => sum + count, 0)).toBe(model.length);
    expect(new Set(bytes.map(([name]) => name))).toEqual(new Set(["s3"]));
    const again = await store.ensure(wanted, () => {}, anySignal());
    expect(again).toEqual({ modelPath, commit });
    expect(bytes.reduce((sum, [, count]) => sum + count, 0)).toBe(model.length);
  });

  it("may be one object, or the files of a format as a folder", async () => {
    await files();
    const store = world.store(nowhere, { s3Endpoint: endpoint });
    const one = { ...wanted, repo: "s3://models/acme/tiny/tiny.Q4_K_M.gguf" };
    expect(model.equals(await readFile((await store.ensure(one, () => {}, anySignal())).modelPath))).toBe(true);
    const folder = { ...wanted, repo: "s3://models/acme/whole", format: "safetensors" };
    const { modelPath } = await store.ensure(folder, () => {}, anySignal());
    expect(model.equals(await readFile(join(modelPath, "model.safetensors")))).toBe(true);
    expect(config.equals(await readFile(join(modelPath, "config.json")))).toBe(true);
  });

  it("are fetched again as another version once an object is replaced", async () => {
    await files();
    const store = world.store(nowhere, { s3Endpoint: endpoint });
    const first = await store.ensure(wanted, () => {}, anySignal());
    const next = Buffer.concat([Buffer.from("GGUF"), randomBytes(1000)]);
    await put("acme/tiny/tiny.Q4_K_M.gguf", next);
    const second = await store.ensure(wanted, () => {}, anySignal());
    expect(second.commit).not.toBe(first.commit);
    expect(next.equals(await readFile(second.modelPath))).toBe(true);
    await s3?.makeBucket("models");
  });

  it("arrive in ranges at the same time, in order", async () => {
    await files();
    const readAhead = { bytes: 250_000, count: 4, minBytes: 1_000_000 };
    const { modelPath } = await world
      .store(nowhere, { s3Endpoint: endpoint, readAhead })
      .ensure(wanted, () => {}, anySignal());
    expect(sha256(await readFile(modelPath))).toBe(sha256(model));
  });

  it("without a sha256 come from the store, not from a host that announces other bytes for them", async () => {
    await files();
    const store = world.store(nowhere, { s3Endpoint: endpoint });
    const { commit } = await store.ensure(wanted, () => {}, anySignal());
    const other = Buffer.concat([Buffer.from("GGUF"), randomBytes(model.length - 4)]);
    const path = "tiny.Q4_K_M.gguf";
    const set = { repo: wanted.repo, revision: "", commit, entry: path };
    const served = await startFileServer(() => (_, response, asked) => {
      if (asked === `/weights/known/${store.keyOf(wanted)}`)
        response.end(JSON.stringify({ ...set, files: [{ path, sha256: sha256(other), sizeBytes: other.length }] }));
      else if (asked === `/weights/blobs/${sha256(other)}`) response.end(other);
      else response.writeHead(404).end();
    });
    world.opened.push(served);
    const cacheDir = await mkdtemp(join(tmpdir(), "stoker-second-"));
    const neighbours = async () => [{ origin: served.url, hostId: "", ticket: "t" }];
    const second = world.store(nowhere, { s3Endpoint: endpoint, cacheDir, neighbours });
    try {
      const { modelPath } = await second.ensure(wanted, () => {}, anySignal());
      expect(model.equals(await readFile(modelPath))).toBe(true);
    } finally {
      await rm(cacheDir, { recursive: true, force: true });
    }
  });

  it("are refused with the reason: no such prefix, bad credentials, a private endpoint of a customer", async () => {
    await files();
    const store = world.store(nowhere, { s3Endpoint: endpoint });
    const missing = await refusal(store.ensure({ ...wanted, repo: "s3://models/none" }, () => {}, anySignal()));
    expect(missing.code).toBe("hub_repo_not_found");
    const bucket = await refusal(store.ensure({ ...wanted, repo: "s3://no-such-bucket/x" }, () => {}, anySignal()));
    expect(bucket.code).toBe("hub_repo_not_found");
    const form = await refusal(store.ensure({ ...wanted, token: "only-one-part" }, () => {}, anySignal()));
    expect(form.code).toBe("weights_invalid");
    const named = { ...wanted, repo: `${wanted.repo}?endpoint=${endpoint}` };
    const other = world.store(nowhere);
    expect((await refusal(other.ensure(named, () => {}, anySignal()))).code).toBe("source_refused");
    const allowed = world.store(nowhere, { trustedOrigins: [endpoint] });
    const { modelPath } = await allowed.ensure(named, () => {}, anySignal());
    expect(model.equals(await readFile(modelPath))).toBe(true);
  });
});

const registry = await startRegistry();
afterAll(() => registry?.close());

interface Layer {
  readonly bytes: Buffer;
  readonly mediaType: string;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** Pushes an artifact by the distribution API, as oras does. Returns the manifest's digest. */
async function pushArtifact(host: string, name: string, tag: string, layers: readonly Layer[]): Promise<string> {
  const base = `http://${host}/v2/${name}`;
  const blob = async (bytes: Buffer): Promise<string> => {
    const digest = `sha256:${sha256(bytes)}`;
    const begun = await fetch(`${base}/blobs/uploads/`, { method: "POST" });
    const at = new URL(begun.headers.get("location") ?? "", base);
    at.searchParams.set("digest", digest);
    const headers = { "content-type": "application/octet-stream" };
    const made = await fetch(at, { method: "PUT", headers, body: new Uint8Array(bytes) });
    if (made.status !== 201) throw new Error(`no blob: ${made.status}`);
    return digest;
  };
  const empty = Buffer.from("{}");
  const manifest = {
    schemaVersion: 2,
    mediaType: "application/vnd.oci.image.manifest.v1+json",
    config: { mediaType: "application/vnd.oci.empty.v1+json", digest: await blob(empty), size: empty.length },
    layers: await Promise.all(
      layers.map(async ({ bytes, ...more }) => ({ ...more, digest: await blob(bytes), size: bytes.length })),
    ),
  };
  const body = JSON.stringify(manifest);
  const made = await fetch(`${base}/manifests/${tag}`, {
    method: "PUT",
    headers: { "content-type": manifest.mediaType },
    body,
  });
  if (made.status !== 201) throw new Error(`no manifest: ${made.status} ${await made.text()}`);
  return `sha256:${sha256(Buffer.from(body))}`;
}

const title = (name: string) => ({ "org.opencontainers.image.title": name });

describe.skipIf(!registry)("weights in a container registry", () => {
  const host = registry?.host ?? "";
  const open = { allowsPrivateUrls: true };

  it("come from the layers of an artifact by tag and by digest", async () => {
    const digest = await pushArtifact(host, "acme/tiny", "v1", [
      { bytes: config, mediaType: "application/vnd.acme.config", annotations: title("README.md") },
      { bytes: model, mediaType: "application/vnd.acme.gguf", annotations: title("tiny.Q4_K_M.gguf") },
    ]);
    const store = world.store(nowhere, open);
    const byTag = await store.ensure({ repo: `oci://${host}/acme/tiny:v1` }, () => {}, anySignal());
    expect(model.equals(await readFile(byTag.modelPath))).toBe(true);
    expect(`sha256:${byTag.commit}`).toBe(digest);
    const byDigest = await store.ensure({ repo: `oci://${host}/acme/tiny@${digest}` }, () => {}, anySignal());
    expect(model.equals(await readFile(byDigest.modelPath))).toBe(true);
  });

  it("come from the layouts of Ollama and of ModelPack", async () => {
    await pushArtifact(host, "acme/ollama", "latest", [
      { bytes: model, mediaType: "application/vnd.ollama.image.model" },
      { bytes: config, mediaType: "application/vnd.ollama.image.license" },
    ]);
    await pushArtifact(host, "acme/pack", "latest", [
      {
        bytes: model,
        mediaType: "application/vnd.cncf.model.weight.v1.raw",
        annotations: { "org.cncf.model.filepath": "model.safetensors" },
      },
      {
        bytes: config,
        mediaType: "application/vnd.cncf.model.weight.config.v1.raw",
        annotations: { "org.cncf.model.filepath": "config.json" },
      },
    ]);
    const store = world.store(nowhere, open);
    const one = await store.ensure({ repo: `oci://${host}/acme/ollama` }, () => {}, anySignal());
    expect(one.modelPath).toMatch(/model\.gguf$/);
    expect(model.equals(await readFile(one.modelPath))).toBe(true);
    const folder = { repo: `oci://${host}/acme/pack`, format: "safetensors" };
    const { modelPath } = await store.ensure(folder, () => {}, anySignal());
    expect(model.equals(await readFile(join(modelPath, "model.safetensors")))).toBe(true);
  });

  it("are refused from a private address unless the operator allows it", async () => {
    const store = world.store(nowhere);
    const refused = await refusal(store.ensure({ repo: `oci://${host}/acme/tiny:v1` }, () => {}, anySignal()));
    expect(refused.code).toBe("source_refused");
    const trusted = world.store(nowhere, { trustedOrigins: [`http://${host}`] });
    const missing = await refusal(trusted.ensure({ repo: `oci://${host}/acme/none:v1` }, () => {}, anySignal()));
    expect(missing).toMatchObject({ code: "hub_repo_not_found", retryable: false });
  });
});

/** A registry that sends a client to a token server first, as most public ones do. */
async function startTokenRegistry(files: ReadonlyMap<string, Buffer>) {
  const seen: (string | undefined)[] = [];
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    const { url = "", headers } = request;
    if (url.startsWith("/token?")) {
      seen.push(headers.authorization);
      const isRight = headers.authorization === `Basic ${Buffer.from("ada:right").toString("base64")}`;
      return isRight ? response.end('{"token":"pull-token"}') : response.writeHead(401).end();
    }
    if (headers.authorization !== "Bearer pull-token") {
      const realm = `http://127.0.0.1:${(server.address() as AddressInfo).port}/token`;
      return response.writeHead(401, { "www-authenticate": `Bearer realm="${realm}",service="here"` }).end();
    }
    const file = files.get(url);
    return file ? response.end(file) : response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = async () => void server.close();
  return { host: `127.0.0.1:${(server.address() as AddressInfo).port}`, seen, close };
}

describe("credentials of a registry", () => {
  it("are exchanged for a token, and refused ones are named", async () => {
    const layer = {
      mediaType: "application/vnd.ollama.image.model",
      digest: `sha256:${sha256(model)}`,
      size: model.length,
    };
    const manifest = Buffer.from(JSON.stringify({ schemaVersion: 2, layers: [layer] }));
    const served = await startTokenRegistry(
      new Map([
        ["/v2/acme/tiny/manifests/latest", manifest],
        [`/v2/acme/tiny/blobs/sha256:${sha256(model)}`, model],
      ]),
    );
    world.opened.push(served);
    const store = world.store(nowhere, { allowsPrivateUrls: true });
    const repo = `oci://${served.host}/acme/tiny`;
    const refused = await refusal(store.ensure({ repo, token: "ada:wrong" }, () => {}, anySignal()));
    expect(refused).toMatchObject({ code: "source_denied", retryable: false });
    const { modelPath } = await store.ensure({ repo, token: "ada:right" }, () => {}, anySignal());
    expect(model.equals(await readFile(modelPath))).toBe(true);
  });
});

/** A server of a customer: replies by path, and records the paths and methods that were requested. */
async function startStranger(reply: (path: string, response: ServerResponse) => void) {
  const asked: string[] = [];
  const served = await startFileServer(() => ({ method, url = "" }, response) => {
    asked.push(`${method} ${url.split("?")[0]}`);
    reply(url, response);
  });
  world.opened.push(served);
  return { host: new URL(served.url).host, url: served.url, asked };
}

const manifestOf = (bytes: Buffer): string => {
  const layer = {
    mediaType: "application/vnd.ollama.image.model",
    digest: `sha256:${sha256(bytes)}`,
    size: bytes.length,
  };
  return JSON.stringify({ schemaVersion: 2, layers: [layer] });
};

describe("a server that a customer names", () => {
  const secret = { repo: "acme/tiny", file: "tiny.Q4_K_M.gguf" };

  it("gives no access to a file of another customer by its digest", async () => {
    const hub = await world.hub({ "tiny.Q4_K_M.gguf": model });
    const folder = await mkdtemp(join(tmpdir(), "stoker-shared-"));
    await mkdir(join(folder, "blobs"));
    await writeFile(join(folder, "blobs", sha256(model)), model);
    try {
      const store = world.store(hub, { allowsPrivateUrls: true, sharedFolders: [folder] });
      await store.ensure(secret, () => {}, anySignal());
      const registry = await startStranger((path, response) =>
        path.includes("/manifests/") ? response.end(manifestOf(model)) : response.writeHead(404).end(),
      );
      const stolen = store.ensure({ repo: `oci://${registry.host}/x/y` }, () => {}, anySignal());
      expect((await refusal(stolen)).code).toBe("hub_repo_not_found");
      expect(registry.asked).toContain(`GET /v2/x/y/blobs/sha256:${sha256(model)}`);
      const other = Buffer.alloc(model.length);
      const liar = await startStranger((path, response) =>
        response.end(path.includes("/manifests/") ? manifestOf(model) : other),
      );
      const wrong = store.ensure({ repo: `oci://${liar.host}/x/y` }, () => {}, anySignal());
      expect((await refusal(wrong)).code).toBe("hub_checksum_mismatch");
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  it("does not delay the download of a public file with the digest that it announces", async () => {
    const hub = await world.hub({ "tiny.Q4_K_M.gguf": model });
    const opened: ServerResponse[] = [];
    const registry = await startStranger((path, response) => {
      if (path.includes("/manifests/")) response.end(manifestOf(model));
      else opened.push(response.writeHead(200, { "content-length": model.length }));
      opened.at(-1)?.write("GGUF");
    });
    const store = world.store(hub, { allowsPrivateUrls: true });
    const stop = new AbortController();
    const slow = store.ensure({ repo: `oci://${registry.host}/x/y` }, () => {}, stop.signal).catch(() => {});
    await vi.waitFor(() => expect(opened).toHaveLength(1), 10_000);
    const { modelPath } = await store.ensure(secret, () => {}, anySignal());
    expect(model.equals(await readFile(modelPath))).toBe(true);
    stop.abort();
    await slow;
  });

  it("is not asked again for what it sent before under the same credentials", async () => {
    const registry = await startStranger((path, response) =>
      response.end(path.includes("/manifests/") ? manifestOf(model) : model),
    );
    const store = world.store(nowhere, { allowsPrivateUrls: true });
    const repo = `oci://${registry.host}/x/y`;
    await store.ensure({ repo: `${repo}:one` }, () => {}, anySignal());
    await store.ensure({ repo: `${repo}:two` }, () => {}, anySignal());
    const blobs = () => registry.asked.filter((one) => one.includes("/blobs/"));
    expect(blobs()).toHaveLength(1);
    await store.ensure({ repo: `${repo}:two`, token: "ada:right" }, () => {}, anySignal());
    expect(blobs()).toHaveLength(2);
  });

  const listed = (key: string) =>
    `<?xml version="1.0"?><ListBucketResult><Contents><Key>${key}</Key><Size>${model.length}</Size><ETag>"1"</ETag><ChecksumAlgorithm>SHA256</ChecksumAlgorithm></Contents></ListBucketResult>`;

  it("sends the objects of a bucket whose announced digest is here already", async () => {
    const hub = await world.hub({ "tiny.Q4_K_M.gguf": model });
    const bucket = await startStranger((path, response) => {
      if (path.includes("list-type=2")) return response.end(listed("x/tiny.Q4_K_M.gguf"));
      response.setHeader("x-amz-checksum-sha256", Buffer.from(sha256(model), "hex").toString("base64"));
      response.setHeader("etag", '"1"');
      return response.end(Buffer.alloc(model.length));
    });
    const store = world.store(hub, { allowsPrivateUrls: true });
    await store.ensure(secret, () => {}, anySignal());
    const wanted = { repo: `s3://bkt/x?endpoint=${bucket.url}`, token: "a:b" };
    const wrong = await refusal(store.ensure(wanted, () => {}, anySignal()));
    expect(wrong.code).toBe("hub_checksum_mismatch");
    expect(bucket.asked).toContain("HEAD /bkt/x/tiny.Q4_K_M.gguf");
    expect(bucket.asked).toContain("GET /bkt/x/tiny.Q4_K_M.gguf");
  });

  it.each([200, 403])("is cut off when a reply of status %i to a list has no end", async (status) => {
    let sent = 0;
    const bucket = await startStranger((_, response) => {
      response.writeHead(status);
      const more = () => {
        const chunk = Buffer.alloc(1024 * 1024, " ");
        while (!response.destroyed) {
          sent += chunk.length;
          if (!response.write(chunk)) return response.once("drain", more);
        }
        return undefined;
      };
      more();
    });
    const store = world.store(nowhere, { allowsPrivateUrls: true });
    const wanted = { repo: `s3://bkt/x?endpoint=${bucket.url}`, token: "a:b" };
    expect((await refusal(store.ensure(wanted, () => {}, anySignal()))).code).toBe("hub_failed");
    expect(sent).toBeLessThan(64 * 1024 * 1024);
  });
});

describe("weights of ModelScope", () => {
  it("are listed and fetched by the documented API, which was not met for real", async () => {
    const asked: string[] = [];
    const listed = { Type: "blob", Path: "tiny.Q4_K_M.gguf", Size: model.length, Sha256: sha256(model) };
    const server = createServer((request, response) => {
      asked.push(`${request.headers.authorization} ${request.url}`);
      const isList = request.url?.startsWith("/api/v1/models/acme/tiny/repo/files?");
      const isFile = request.url?.startsWith("/api/v1/models/acme/tiny/repo?");
      if (isList) response.end(JSON.stringify({ Code: 200, Data: { Files: [listed, { Type: "tree", Path: "x" }] } }));
      else if (isFile) response.end(model);
      else response.writeHead(404).end();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    world.opened.push({ close: async () => void server.close() });
    const modelScopeEndpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const store = world.store(nowhere, { modelScopeEndpoint });
    const wanted = { repo: "modelscope://acme/tiny", token: "ms-token" };
    const { modelPath } = await store.ensure(wanted, () => {}, anySignal());
    expect(model.equals(await readFile(modelPath))).toBe(true);
    expect(asked[0]).toBe("Bearer ms-token /api/v1/models/acme/tiny/repo/files?Revision=master&Recursive=true");
    const other = await refusal(store.ensure({ repo: "modelscope://acme/none" }, () => {}, anySignal()));
    expect(other.code).toBe("hub_repo_not_found");
  });
});

describe("a shared folder", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "stoker-shared-"));
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  it("is used before the hub, and its damaged files are not", async () => {
    const hub = await world.hub({ "tiny.Q4_K_M.gguf": model });
    await mkdir(join(folder, "blobs"));
    const at = join(folder, "blobs", sha256(model));
    await writeFile(at, model);
    const bytes = new Map<string, number>();
    const onBytes = (name: string, count: number) => void bytes.set(name, (bytes.get(name) ?? 0) + count);
    const wanted = { repo: "acme/tiny", file: "tiny.Q4_K_M.gguf" };
    const first = world.store(hub, { sharedFolders: [folder], onBytes });
    const { modelPath } = await first.ensure(wanted, () => {}, anySignal());
    expect(model.equals(await readFile(modelPath))).toBe(true);
    expect([...bytes]).toEqual([["shared", model.length]]);
    await rm(world.cacheDir, { recursive: true, force: true });
    await writeFile(at, Buffer.alloc(model.length));
    const second = world.store(hub, { sharedFolders: [folder], onBytes });
    const again = await second.ensure(wanted, () => {}, anySignal());
    expect(model.equals(await readFile(again.modelPath))).toBe(true);
    expect(bytes.get("hub")).toBe(model.length);
  });

  it("lists a repository in the layout of the hub tools while the hub is unavailable", async () => {
    const commit = "0123456789abcdef0123456789abcdef01234567";
    const root = join(folder, "models--acme--tiny");
    const snapshot = join(root, "snapshots", commit);
    await mkdir(join(root, "blobs"), { recursive: true });
    await mkdir(snapshot, { recursive: true });
    await mkdir(join(root, "refs"));
    await writeFile(join(root, "refs", "main"), commit);
    await writeFile(join(root, "blobs", sha256(model)), model);
    await symlink(join("..", "..", "blobs", sha256(model)), join(snapshot, "tiny.Q4_K_M.gguf"));
    const store = world.store(nowhere, { sharedFolders: [folder], isOffline: true });
    const found = await store.ensure({ repo: "acme/tiny" }, () => {}, anySignal());
    expect(found.commit).toBe(commit);
    expect(model.equals(await readFile(found.modelPath))).toBe(true);
  });
});

describe("ranges at the same time", () => {
  it("end as one stream where the source ignores them or refuses several", async () => {
    const hub = await world.hub({ "tiny.Q4_K_M.gguf": model });
    hub.faults.ignoreRange = true;
    const readAhead = { bytes: 250_000, count: 4, minBytes: 1_000_000 };
    const wanted = { repo: "acme/tiny", file: "tiny.Q4_K_M.gguf" };
    const { modelPath } = await world.store(hub, { readAhead }).ensure(wanted, () => {}, anySignal());
    expect(model.equals(await readFile(modelPath))).toBe(true);
  });

  it("go on after a cut connection without a byte lost", async () => {
    const hub = await world.hub({ "tiny.Q4_K_M.gguf": model });
    hub.faults.cut = { afterBytes: 100_000, times: 2 };
    const readAhead = { bytes: 250_000, count: 4, minBytes: 1_000_000 };
    const wanted = { repo: "acme/tiny", file: "tiny.Q4_K_M.gguf" };
    const { modelPath } = await world.store(hub, { readAhead }).ensure(wanted, () => {}, anySignal());
    expect(model.equals(await readFile(modelPath))).toBe(true);
  });
});
