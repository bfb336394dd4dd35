import { describe, expect, it } from "vitest";
import { draftWeights } from "../../../../agent/engines/draft-model.ts";
import { planInstance } from "../../../../agent/engines/plan-instance.ts";
import { instanceSpec } from "../../../fakes/instance-spec.ts";

const host = {
  driver: "process",
  runtimeImage: "runtime:1",
  allowedImages: ["other/*"],
  filesDir: "/data/files",
  logLevel: "info",
} as const;
const docker = { ...host, driver: "docker" } as const;
const model = "/cache/blobs/model.gguf";

describe("our own runtime", () => {
  it("gets everything in its environment as a process, with the host's paths", () => {
    const outcome = planInstance(instanceSpec(), model, host);
    expect(outcome).toEqual({
      ok: true,
      files: [],
      plan: {
        instanceId: "instance-1",
        deployId: "deployment-1",
        generation: 1,
        kind: "runtime",
        image: "runtime:1",
        args: [],
        env: {
          STOKER_INSTANCE_ID: "instance-1",
          STOKER_MODEL_PATH: model,
          STOKER_SERVED_MODEL_NAME: "owner/model",
          STOKER_MAX_BATCH_SIZE: "4",
          STOKER_CONTEXT_LENGTH: "2048",
          STOKER_GPU_LAYERS: "0",
          UV_THREADPOOL_SIZE: "1",
          STOKER_HOST: "127.0.0.1",
          STOKER_PORT: "0",
          STOKER_LOG_LEVEL: "info",
          STOKER_CPUS: "1",
          STOKER_MEMORY_BYTES: "1073741824",
          STOKER_ORPHAN_TIMEOUT_MS: "600000",
          CUDA_VISIBLE_DEVICES: "",
        },
        mounts: [],
        port: 8000,
        memoryBytes: 1024 ** 3,
        cpus: 1,
        gpuUuids: [],
        claimedGpus: ["cpu-host-0"],
        shmBytes: 2 * 1024 ** 3,
      },
    });
  });

  it("mounts its model read-only under /models in a container and listens on all its addresses", () => {
    const outcome = planInstance(instanceSpec({ chatTemplate: "{{ messages }}" }), model, docker);
    if (!outcome.ok) throw new Error(outcome.message);
    const { env, mounts } = outcome.plan;
    expect(env).toMatchObject({ STOKER_MODEL_PATH: "/models/model.gguf", STOKER_HOST: "0.0.0.0", STOKER_PORT: "8000" });
    expect(env).not.toHaveProperty("STOKER_ORPHAN_TIMEOUT_MS");
    expect(mounts.every((mount) => mount.readOnly)).toBe(true);
    expect(mounts[0]).toEqual({ source: model, target: "/models/model.gguf", readOnly: true });
    expect(outcome.files[0]?.text).toBe("{{ messages }}");
    expect(mounts[1]).toMatchObject({ source: outcome.files[0]?.path, target: env["STOKER_CHAT_TEMPLATE_FILE"] });
  });

  it("keeps what it made of ONNX graphs in a folder of the deployment's own; there is none for GGUF", () => {
    const kept = { graphsDir: "/data/graphs" };
    const planOf = (path: string, more: object = {}) => {
      const outcome = planInstance(instanceSpec(), path, { ...host, ...kept, ...more });
      if (!outcome.ok) throw new Error(outcome.message);
      return outcome;
    };
    const process = planOf("/cache/snapshots/c0ffee");
    expect(process.plan.env["STOKER_GRAPH_CACHE"]).toBe("/data/graphs/deployment-1");
    expect([process.openFolders, process.plan.mounts]).toEqual([["/data/graphs/deployment-1"], []]);
    const container = planOf("/cache/snapshots/c0ffee", { driver: "docker" });
    const [, cache] = container.plan.mounts;
    expect(cache).toEqual({
      source: "/data/graphs/deployment-1",
      target: container.plan.env["STOKER_GRAPH_CACHE"],
      readOnly: false,
    });
    const gguf = planOf(model, { driver: "docker" });
    expect(gguf.plan.env).not.toHaveProperty("STOKER_GRAPH_CACHE");
    expect([gguf.openFolders, gguf.plan.mounts.every(({ readOnly }) => readOnly)]).toEqual([undefined, true]);
  });

  it("gets the path of its draft model, which is fetched with the deployment's token", () => {
    const spec = instanceSpec({ extraArgs: ["--draft-model=owner/small-GGUF:small.Q8_0.gguf"] });
    expect(draftWeights(spec)).toMatchObject({ repo: "owner/small-GGUF", file: "small.Q8_0.gguf", format: "gguf" });
    expect(draftWeights(instanceSpec())).toBeUndefined();
    const planOf = (one: typeof host | typeof docker) => {
      const outcome = planInstance(spec, model, one, { draftPath: "/cache/blobs/model.gguf" });
      if (!outcome.ok) throw new Error(outcome.message);
      return outcome.plan;
    };
    expect(planOf(host).env["STOKER_DRAFT_MODEL_PATH"]).toBe("/cache/blobs/model.gguf");
    const { env, mounts } = planOf(docker);
    const target = env["STOKER_DRAFT_MODEL_PATH"];
    expect(mounts[1]).toEqual({ source: "/cache/blobs/model.gguf", target, readOnly: true });
    expect(mounts[0]?.target).not.toBe(target);
    for (const bad of ["/etc/passwd", "a/b:../c.gguf", "a/b:c.bin", "a"]) {
      const refused = planInstance(instanceSpec({ extraArgs: [`--draft-model=${bad}`] }), model, host);
      expect(refused, bad).toMatchObject({ ok: false, code: "bad_extra_args" });
    }
  });

  it("uses the GPUs it was granted and no others", () => {
    const outcome = planInstance(instanceSpec({ gpuUuids: ["GPU-1", "GPU-2"] }), model, host);
    if (!outcome.ok) throw new Error(outcome.message);
    expect(outcome.plan.gpuUuids).toEqual(["GPU-1", "GPU-2"]);
    expect(outcome.plan.env).toMatchObject({ STOKER_GPU_LAYERS: "auto", CUDA_VISIBLE_DEVICES: "GPU-1,GPU-2" });
    expect(outcome.plan.env).not.toHaveProperty("UV_THREADPOOL_SIZE");
    expect(outcome.plan.shmBytes).toBe(16 * 1024 ** 3);
  });

  it("never gets the hub's token", () => {
    const { weights } = instanceSpec();
    if (!weights) throw new Error("no weights");
    const spec = instanceSpec({ weights: { ...weights, token: "hf_secret_token" } });
    expect(JSON.stringify(planInstance(spec, model, docker))).not.toContain("hf_secret_token");
  });
});

describe("a server that already runs", () => {
  it("is only named", () => {
    const outcome = planInstance(
      instanceSpec({ engine: "external", externalUrl: "http://127.0.0.1:9000/v1/" }),
      undefined,
      host,
    );
    if (!outcome.ok) throw new Error(outcome.message);
    expect(outcome.plan).toMatchObject({ kind: "external", externalUrl: "http://127.0.0.1:9000/v1", mounts: [] });
  });
  it.each(["", "ftp://host/", "http://user@host/", "http://host/?key=1", "not a url"])(
    "is refused at the address %j",
    (externalUrl) =>
      expect(planInstance(instanceSpec({ engine: "external", externalUrl }), undefined, host)).toMatchObject({
        ok: false,
        code: "bad_external_url",
      }),
  );
});

describe("values of a compromised control plane", () => {
  it.each([
    ["an engine nobody knows", instanceSpec({ engine: "tgi" }), "unknown_engine"],
    ["an id that is a path", instanceSpec({ instanceId: "../../etc" }), "bad_spec"],
    ["an argument that is no option", instanceSpec({ extraArgs: ["--ok=1", "; rm -rf /"] }), "bad_extra_args"],
  ])("is refused: %s", (_, spec, code) => expect(planInstance(spec, model, host)).toMatchObject({ ok: false, code }));
});
