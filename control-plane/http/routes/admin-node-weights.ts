import { Type } from "typebox";
import type { NodeWeights } from "../../fleet/node-weights.ts";
import { actOf } from "../act-of.ts";
import type { Endpoints } from "../endpoint.ts";
import { isoTime } from "../render-deployment.ts";
import { PrefetchBody, PrefetchRecord } from "../schemas/node-weights.ts";
import type { HttpDeps } from "../verbs.ts";

const common = { tag: "operator", access: "admin" } as const;
const path = "/v1/admin/nodes/:node_id/weights";
const Node = Type.Object({ node_id: Type.String() });

/** Weights on a host before anybody asks for them. */
export function addAdminNodeWeightsRoutes(endpoints: Endpoints, { nodeWeights }: Pick<HttpDeps, "nodeWeights">): void {
  endpoints.add({
    ...common,
    method: "POST",
    path,
    summary: "Fetch weights to a host ahead of any deployment, and pin them if wanted",
    params: Node,
    body: PrefetchBody,
    answer: PrefetchRecord,
    refusals: [404, 503],
    handler: async ({ caller, params, body, reply }) => {
      const wish = {
        repo: body.repo,
        revision: body.revision ?? "main",
        file: body.file ?? "",
        format: body.format ?? "gguf",
        isPinned: body.pin ?? false,
      };
      return render(await nodeWeights.ask(params.node_id, wish, actOf(caller, reply)));
    },
  });

  endpoints.add({
    ...common,
    method: "GET",
    path,
    summary: "Weights a host was asked to fetch ahead, and how far each is",
    params: Node,
    answer: Type.Object({ weights: Type.Array(PrefetchRecord) }),
    refusals: [404, 503],
    handler: async ({ params }) => ({ weights: (await nodeWeights.list(params.node_id)).map(render) }),
  });

  endpoints.add({
    ...common,
    method: "DELETE",
    path: `${path}/:prefetch_id`,
    summary: "No longer fetch or pin these weights; what is there goes when its room is needed",
    params: Type.Object({ node_id: Type.String(), prefetch_id: Type.String() }),
    answer: Type.Object({}),
    refusals: [404, 503],
    handler: async ({ caller, params, reply }) => {
      await nodeWeights.drop(params.node_id, params.prefetch_id, actOf(caller, reply));
      return {};
    },
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
