// Moderation by a text classifier: its labels become the categories of OpenAI's format.
import type { Caller } from "../../../accounts/caller.ts";
import type { ModelDirectory, ServedModel } from "../../../catalog/served-model.ts";
import { type Completion, taskCompletion } from "../../../inference/completion.ts";
import { WrongTask } from "../../../inference/errors.ts";
import { mayUse } from "../../../inference/may-use.ts";
import { exactly } from "../../../inference/task.ts";
import { bytesPerToken, jsonBody, tokensPerInput } from "./json-task.ts";

/** OpenAI's categories; a result has all of them. */
export const moderationCategories = [
  "harassment",
  "harassment/threatening",
  "hate",
  "hate/threatening",
  "illicit",
  "illicit/violent",
  "self-harm",
  "self-harm/instructions",
  "self-harm/intent",
  "sexual",
  "sexual/minors",
  "violence",
  "violence/graphic",
] as const;

/** Categories of labels of common classifiers, in lower case without separators. Labels of no harm have none. */
const categoryOfLabel: Readonly<Record<string, (typeof moderationCategories)[number] | undefined>> = {
  // KoalaAI/Text-Moderation
  h: "hate",
  h2: "hate/threatening",
  hr: "harassment",
  s: "sexual",
  s3: "sexual/minors",
  sh: "self-harm",
  v: "violence",
  v2: "violence/graphic",
  // unitary/toxic-bert and its relatives
  toxic: "harassment",
  toxicity: "harassment",
  severetoxic: "harassment",
  severetoxicity: "harassment",
  insult: "harassment",
  obscene: "sexual",
  threat: "harassment/threatening",
  identityhate: "hate",
  identityattack: "hate",
  sexualexplicit: "sexual",
  // Common names
  hatespeech: "hate",
  offensive: "harassment",
  nsfw: "sexual",
  selfharm: "self-harm",
  ...Object.fromEntries(moderationCategories.map((name) => [plain(name), name])),
};
const harmless: ReadonlySet<string> = new Set([
  "ok",
  "safe",
  "neutral",
  "nottoxic",
  "nontoxic",
  "nothate",
  "nonhate",
  "sfw",
  "none",
]);

const classification = "text-classification";

/** A text with a category of this score or more is flagged. */
const flaggedFrom = 0.5;

function plain(label: string): string {
  return label.toLowerCase().replaceAll(/[^a-z0-9]/g, "");
}

export interface ModerationParams {
  readonly model: string;
  readonly served: ServedModel;
  readonly inputs: readonly string[];
}

/** Throws WrongTask for a model of our runtime with another task: the runtime would answer with results of that task. */
export function moderation({ model, served, inputs }: ModerationParams): Completion {
  const bytes = inputs.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  const isOwn = served.engine === "stoker";
  if (isOwn && served.task !== classification) throw new WrongTask(served);
  return taskCompletion("inference", model, {
    enginePath: isOwn ? "/v1/infer" : "/v1/moderations",
    inputTokensBound: bytes + inputs.length * tokensPerInput,
    inputTokensEstimate: Math.ceil(bytes / bytesPerToken),
    units: () => exactly({ items: inputs.length }),
    body: jsonBody(isOwn ? { task: classification, inputs } : { input: inputs }),
  });
}

interface Scored {
  readonly label: string;
  readonly score: number;
}

/** One result of OpenAI's format. A label that is not known is a category of its own. */
export function moderationResult(labels: readonly Scored[]) {
  const scores: Record<string, number> = Object.fromEntries(moderationCategories.map((name) => [name, 0]));
  for (const { label, score } of labels) {
    const name = plain(label);
    if (harmless.has(name)) continue;
    const category = categoryOfLabel[name] ?? label;
    scores[category] = Math.max(scores[category] ?? 0, score);
  }
  const categories = Object.fromEntries(Object.entries(scores).map(([name, score]) => [name, score >= flaggedFrom]));
  return {
    flagged: Object.values(categories).includes(true),
    categories,
    category_scores: scores,
    category_applied_input_types: Object.fromEntries(Object.keys(scores).map((name) => [name, ["text"]])),
  };
}

const openAiNames = /^(omni|text)-moderation-/;

/**
 * Model for a moderation request without one, or with a name of OpenAI's that is not served: the operator's choice, otherwise a
 * served classifier, public ones first.
 */
export function moderationModel(
  models: ModelDirectory,
  caller: Caller,
  asked: string | null | undefined,
  chosen: string | undefined,
): string {
  if (asked && (!openAiNames.test(asked) || models.resolve(asked, caller.account))) return asked;
  if (chosen !== undefined) return chosen;
  const served = models
    .list(caller.account)
    .filter((model) => model.task === classification && mayUse(caller.models, model, model.name));
  const first = served.find(({ isPublic }) => isPublic) ?? served[0];
  return first?.name ?? asked ?? "moderation";
}
