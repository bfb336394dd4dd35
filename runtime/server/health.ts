// GET /health and GET /v1/models as values.
import type { RuntimeState } from "./runtime-state.ts";
import { adapterHostOf, isTextEngine } from "./text-engine.ts";

export function health(state: RuntimeState): { readonly status: number; readonly body: object } {
  const { phase, instanceId: instance_id, model } = state;
  if (phase.status === "loading")
    return { status: 503, body: { status: "loading", instance_id, model, progress: phase.progress } };
  const { engine } = phase;
  const load = engine?.load();
  const body = {
    status: phase.status,
    instance_id,
    model,
    context_length: engine?.contextLength ?? null,
    max_batch_size: engine?.maxBatchSize ?? null,
    num_running: load?.running ?? 0,
    num_waiting: load?.waiting ?? 0,
    tokens_generated_total: load?.tokensGenerated ?? 0,
    provider: engine?.provider ?? null,
    ...(engine?.warnings?.length ? { warnings: engine.warnings } : {}),
  };
  return { status: phase.status === "ready" ? 200 : 503, body };
}

export function models(state: RuntimeState): object {
  const { engine, model } = state;
  const data = engine
    ? [
        {
          id: model,
          object: "model",
          created: state.createdSeconds,
          owned_by: "stoker",
          max_model_len: engine.contextLength,
          max_batch_size: engine.maxBatchSize,
          supports_tools: isTextEngine(engine) && engine.toolFormat !== undefined,
        },
        ...(adapterHostOf(engine)?.adapters ?? []).map((id) => ({
          id,
          object: "model",
          created: state.createdSeconds,
          owned_by: "stoker",
          root: model,
          parent: model,
        })),
      ]
    : [];
  return { object: "list", data };
}
