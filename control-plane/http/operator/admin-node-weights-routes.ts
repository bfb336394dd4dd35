import { Type } from "typebox";
import type { NodeWeights } from "../../fleet/node-weights.ts";
import { mediumBodyBytes } from "../body/json-body.ts";
import { actOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { isoTime } from "../deployments/render-deployment.ts";
import type { OperatorFeatures } from "./features.ts";

const format = Type.Unsafe<string>({
  type: "string",
  enum: ["gguf", "safetensors", "onnx", "lora"],
  description: "Format of the weights: one GGUF model, or the files of another format",
  default: "gguf",
});

// Same rule as the agents': no part of a path leads out of its folder.
const noStepUp = "(?!.*(?:^|/)\\.\\.(?:/|$))";
const plainPath = "(?!.*(?:^|/)\\.{0,2}(?:/|$))[\\w.][\\w. +@/=,()-]{0,511}";

const PrefetchBody = Type.Object(
  {
    repo: Type.String({
      pattern: `^${noStepUp}[A-Za-z0-9][\\w.-]{0,95}/[\\w.-]{1,96}$`,
      description: "Repository of the hub, owner/name",
    }),
    revision: Type.Optional(
      Type.String({
        pattern: `^${noStepUp}[\\w./-]{1,128}$`,
        default: "main",
        description: "Branch, tag or commit",
      }),
    ),
    file: Type.Optional(
      Type.String({
        pattern: `^$|^${plainPath}$`,
        description: "Path of one file in the repository; empty: chosen by format",
      }),
    ),
    format: Type.Optional(format),
    pin: Type.Optional(
      Type.Boolean({ default: false, description: "Never evict these weights while this entry exists" }),
    ),
  },
  { additionalProperties: false },
);

const PrefetchRecord = Type.Object({
  prefetch_id: Type.String(),
  repo: Type.String(),
  revision: Type.String(),
  file: Type.String({ description: "Empty: chosen by format" }),
  format: Type.String(),
  pinned: Type.Boolean(),
  state: Type.Union(["waiting", "downloading", "ready", "failed"].map((one) => Type.Literal(one))),
  commit: Type.String({ description: "Empty until downloaded" }),
  bytes: Type.Integer(),
  bytes_total: Type.Integer({ description: "0 while unknown" }),
  fail_code: Type.String(),
  fail_message: Type.String(),
  created_at: Type.String({ format: "date-time" }),
});
const path = "/v1/admin/nodes/:node_id/weights";

/** Weights that a host downloads before a deployment needs them. */
export function addAdminNodeWeightsRoutes(endpoints: Endpoints, { nodeWeights }: OperatorFeatures): void {
  const admin = endpoints.with({ tag: "operator", access: "admin" });

  admin.post(path, {
    summary: "Download weights to a host ahead of deployments, optionally pinned",
    bodyLimitBytes: mediumBodyBytes,
    body: PrefetchBody,
    answer: PrefetchRecord,
    refusals: [404],
    handler: async ({ caller, params, body, reply }) => {
      const request = {
        repo: body.repo,
        revision: body.revision ?? "main",
        file: body.file ?? "",
        format: body.format ?? "gguf",
        isPinned: body.pin ?? false,
      };
      return render(await nodeWeights.ask(params.node_id, request, actOf(caller, reply)));
    },
  });

  admin.get(path, {
    summary: "List prefetched weights of a host and their progress",
    answer: Type.Object({ weights: Type.Array(PrefetchRecord) }),
    refusals: [404],
    handler: async ({ params }) => ({ weights: (await nodeWeights.list(params.node_id)).map(render) }),
  });

  admin.delete(`${path}/:prefetch_id`, {
    summary: "Stop prefetching or pinning weights; downloaded files are evicted when space is needed",
    refusals: [404],
    handler: ({ caller, params, reply }) => nodeWeights.drop(params.node_id, params.prefetch_id, actOf(caller, reply)),
  });
}

function render(one: NodeWeights) {
  const { bytes, bytesTotal, commit, failCode } = one;
  const state = failCode !== "" ? "failed" : commit !== "" ? "ready" : bytes > 0n ? "downloading" : "waiting";
  return {
    prefetch_id: one.id,
    repo: one.repo,
    revision: one.revision,
    file: one.file,
    format: one.format,
    pinned: one.isPinned,
    state,
    commit,
    bytes: Number(bytes),
    bytes_total: Number(bytesTotal),
    fail_code: failCode,
    fail_message: one.failMessage,
    created_at: isoTime(one.createdAtMs),
  } as const;
}
