// llama.cpp's own server, from an image that the operator named or as an installed program. It reads GGUF, allocates the contexts of
// all requests at its start, and serves each request in a slot.
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import { defaultSlotContext } from "../../proto/model-engines.ts";
import { driverGpus, type EnginePlace, enginePlan, setsOwn } from "./container-plan.ts";
import type { HostFacts, PlanOutcome } from "./host-facts.ts";

const lengthArg = "--max-model-len=";
const cacheOff = "--no-cache-prompt";

export function planLlamaServer(spec: InstanceSpec__Output, modelPath: string, host: HostFacts): PlanOutcome {
  return enginePlan(spec, modelPath, host, {
    name: "llama.cpp's server",
    key: "llamacpp",
    port: 8080,
    takesAdapters: false,
    readsTemplate: true,
    command: () => ["/app/llama-server"],
    program: { subcommand: [], secretVariable: "LLAMA_API_KEY" },
    argv: (place) => argvOf(spec, place),
    env: {},
  });
}

function argvOf(spec: InstanceSpec__Output, place: EnginePlace): string[] {
  const own = setsOwn(spec.extraArgs);
  const slots = Math.max(1, spec.maxBatchSize);
  const slotContext = spec.contextLength || defaultSlotContext;
  return [
    ...["--model", place.modelPath, "--alias", spec.servedModelName],
    ...["--host", place.host, ...(place.port === undefined ? [] : ["--port", String(place.port)])],
    // Each slot has its part: in a common buffer one long request would end those of all others.
    ...["--parallel", String(slots), "--ctx-size", String(slots * slotContext), "--no-kv-unified"],
    // Layers that do not fit into the GPUs remain in the host's memory.
    ...(own("n-gpu-layers") ? [] : ["--n-gpu-layers", driverGpus(spec).length > 0 ? "auto" : "0"]),
    ...(spec.cpus > 0 ? ["--threads", String(Math.max(1, Math.floor(spec.cpus)))] : []),
    ...promptCache(spec),
    ...modeOf(spec.task),
    ...["--jinja", ...(place.templatePath === undefined ? [] : ["--chat-template-file", place.templatePath])],
    ...["--metrics", "--no-slots", "--no-ui", "--offline"],
    ...spec.extraArgs.filter((arg) => arg !== cacheOff && !arg.startsWith(lengthArg)).flatMap(inTwo),
  ];
}

/** It takes no `--name=value`. */
function inTwo(arg: string): readonly string[] {
  const at = arg.indexOf("=");
  return at < 0 ? [arg] : [arg.slice(0, at), arg.slice(at + 1)];
}

/** Off unless shared: it reuses a prompt in any slot, also that of another account. `--cache-ram` is its store in the host's memory. */
function promptCache({ sharesPrefixCache, extraArgs }: InstanceSpec__Output): readonly string[] {
  const isOn = sharesPrefixCache && !extraArgs.includes(cacheOff);
  return [...(isOn ? [] : [cacheOff]), "--cache-ram", "0"];
}

function modeOf(task: string): readonly string[] {
  if (task === "embeddings") return ["--embeddings"];
  return task === "reranker" ? ["--reranking"] : [];
}
