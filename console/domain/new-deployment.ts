// The form for a new deployment: its values, the request they make, the same on the command line.

export const tasks = [
  "text-generation",
  "embeddings",
  "reranker",
  "text-to-speech",
  "automatic-speech-recognition",
  "text-to-image",
  "text-classification",
  "token-classification",
  "zero-shot-classification",
  "question-answering",
  "fill-mask",
  "image-classification",
  "zero-shot-image-classification",
  "object-detection",
] as const;

export const engines = ["stoker", "vllm", "sglang", "llamacpp"] as const;

export interface DeployForm {
  /** Hub repository or address with a scheme. */
  readonly source: string;
  readonly revision: string;
  readonly token: string;
  readonly task: string;
  readonly name: string;
  readonly gpu: string;
  readonly numGpus: number;
  readonly batch: number;
  readonly min: number;
  readonly max: number;
  /** Seconds; empty: the default. */
  readonly idle: string;
  readonly sleep: string;
  /** Milliseconds; empty: none. */
  readonly targetTtft: string;
  readonly targetQueue: string;
  /** Empty: chosen by the weights and the GPU. */
  readonly engine: string;
  readonly args: string;
  readonly context: string;
}

export type SourceKind = "hub" | "s3" | "oci" | "modelscope";

export function kindOfSource(source: string): SourceKind {
  const [, scheme] = /^(s3|oci|modelscope):\/\//.exec(source) ?? [];
  return (scheme as SourceKind | undefined) ?? "hub";
}

/** Splits a line of arguments as a shell would: quotes keep spaces. */
export function splitArgs(line: string): readonly string[] {
  return [...line.matchAll(/(?:"([^"]*)"|'([^']*)'|[^\s"'])+/g)].map(([word]) =>
    word.replaceAll(/"([^"]*)"|'([^']*)'/g, "$1$2"),
  );
}

/** Name for a model of `source` under the account's name: `ada/qwen3-8b`. */
export function suggestedName(owner: string, source: string): string {
  const last =
    source
      .replace(/[:@][^/]*$/, "")
      .split("/")
      .filter(Boolean)
      .at(-1) ?? "";
  const name = last.replaceAll(/[^\w.-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "");
  return name === "" ? "" : `${owner}/${name}`;
}

/** Only language models have these settings. */
export const isLanguageModel = ({ task }: Pick<DeployForm, "task">): boolean => task === "text-generation";

const numberIn = (text: string): number | undefined => (text.trim() === "" ? undefined : Number(text));

/** Errors by field, found before the request is sent. */
export function faultsOf(form: DeployForm): Partial<Record<keyof DeployForm, FaultName>> {
  const faults: Partial<Record<keyof DeployForm, FaultName>> = {};
  if (form.source.trim() === "") faults.source = "missing";
  else if (kindOfSource(form.source) === "hub" && !/^[\w.-]+\/[\w.-]+$/.test(form.source))
    faults.source = "noRepository";
  if (form.name.trim() === "") faults.name = "missing";
  else if (!/^[A-Za-z0-9][\w.-]{0,95}\/[A-Za-z0-9][\w.-]{0,127}$/.test(form.name)) faults.name = "noName";
  if (form.max < Math.max(1, form.min)) faults.max = "belowMinimum";
  if (form.idle !== "" && form.min > 0) faults.idle = "needsMinimumZero";
  if (form.gpu === "") faults.gpu = "missing";
  return faults;
}

export type FaultName = "missing" | "noRepository" | "noName" | "belowMinimum" | "needsMinimumZero";

function settingsOf(form: DeployForm) {
  const ttft = numberIn(form.targetTtft);
  const queue = numberIn(form.targetQueue);
  const sleep = numberIn(form.sleep);
  return {
    min_instances: form.min,
    max_instances: form.max,
    ...(form.idle === "" ? {} : { inactive_shutdown: Number(form.idle) }),
    ...(sleep === undefined ? {} : { sleep_after_seconds: sleep }),
    ...(ttft === undefined ? {} : { target_ttft_ms: ttft }),
    ...(queue === undefined ? {} : { target_queue_ms: queue }),
  };
}

/** Body of POST /deploy/llm and of its dry run, or of POST /deploy/hf/ for other tasks. */
export function requestOf(form: DeployForm): { readonly path: "/deploy/llm" | "/deploy/hf/"; readonly body: object } {
  const common = {
    model_name: form.name.trim(),
    gpu: form.gpu,
    num_gpus: form.numGpus,
    max_batch_size: form.batch,
    settings: settingsOf(form),
  };
  const source = { repo: form.source.trim(), revision: form.revision.trim() || null, token: form.token.trim() || null };
  if (!isLanguageModel(form)) return { path: "/deploy/hf/", body: { ...common, ...source, task: form.task } };
  const args = splitArgs(form.args);
  const context = numberIn(form.context);
  return {
    path: "/deploy/llm",
    body: {
      ...common,
      hf: source,
      ...(form.engine === "" ? {} : { engine: form.engine }),
      ...(args.length === 0 ? {} : { extra_args: args }),
      ...(context === undefined ? {} : { standard_args: { max_context_size: context } }),
    },
  };
}

const inShell = (word: string): string => (/^[\w./:@=,-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

/** The same on the command line; the token comes from a file. */
export function commandOf(form: DeployForm): string {
  const isLlm = isLanguageModel(form);
  const parts = [
    `stoker deploy create ${inShell(form.name.trim() || "you/model")}`,
    ...(isLlm ? [] : [`--task ${form.task}`]),
    `--hf-repo ${inShell(form.source.trim() || "owner/name")}`,
    ...(form.revision.trim() ? [`--hf-revision ${inShell(form.revision.trim())}`] : []),
    ...(form.token.trim() ? ["--hf-token-file token.txt"] : []),
    ...(form.gpu ? [`--gpu ${form.gpu} --num-gpus ${form.numGpus}`] : []),
    `--max-batch-size ${form.batch} --min ${form.min} --max ${form.max}`,
    ...(form.idle.trim() ? [`--inactive-shutdown ${form.idle.trim()}s`] : []),
    ...(form.sleep.trim() ? [`--sleep-after ${form.sleep.trim()}s`] : []),
    ...(form.targetTtft.trim() ? [`--target-ttft ${form.targetTtft.trim()}`] : []),
    ...(form.targetQueue.trim() ? [`--target-queue ${form.targetQueue.trim()}`] : []),
    ...(isLlm && form.context.trim() ? [`--context ${form.context.trim()}`] : []),
    ...(isLlm && form.engine ? [`--engine ${form.engine}`] : []),
    ...(isLlm ? splitArgs(form.args).map((arg) => `--arg=${inShell(arg)}`) : []),
  ];
  return parts.join(" ");
}
