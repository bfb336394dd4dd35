// Labels of a text: those the model was trained on, or, by a model of entailment, those the request names.
import { labelsOf } from "../../proto/model-task.ts";
import type { ModelFolder } from "../onnx/model-folder.ts";
import type { TaskCall } from "../server/engine.ts";
import type { Fields } from "../server/fields.ts";
import { invalid, unusable } from "../server/request-error.ts";
import { nativeTask, requiredText } from "./native-task.ts";
import { ranked, sigmoid, softmax } from "./numbers.ts";
import type { OpenTask, TaskDeps } from "./task-engine.ts";
import { encodeAll, logitRows, openTextGraph } from "./text-graph.ts";

const maxLabels = 128;
const maxTexts = 128;
const usualTemplate = "This example is {}.";

export async function openTextClassification(deps: TaskDeps, folder: ModelFolder): Promise<OpenTask> {
  const graph = await openTextGraph<Float32Array>(deps, folder, {
    name: "text classification",
    outputs: [{ name: "logits", types: ["float32"], rank: 2 }],
    read: logitRows,
  });
  const { tokenizer } = graph;
  const labels = labelsOf(folder.config);
  const isMultiLabel = folder.config["problem_type"] === "multi_label_classification" || labels.length === 1;
  const entailment = labels.findIndex((label) => /^entail/i.test(label));
  const contradiction = labels.findIndex((label) => /^contra/i.test(label));

  const ownLabels = async (inputs: readonly string[], field: string, call: TaskCall) => {
    const rows = await graph.run(call, await encodeAll(tokenizer, inputs, field));
    return rows.map((row) => ranked(labels, isMultiLabel ? Array.from(row, sigmoid) : softmax(row)));
  };
  const givenLabels = async (input: string, request: ZeroShot, call: TaskCall) => {
    if (entailment < 0)
      throw unusable(
        "candidate_labels",
        "this model knows its own labels only and cannot judge others; leave candidate_labels out, or use a model trained for entailment",
      );
    const encode = (label: string) => tokenizer.encode(input, request.hypothesis(label));
    const rows = await graph.run(call, await encodeAll(tokenizer, request.labels, "input", encode));
    const scoreOf = (row: Float32Array) => row[entailment] as number;
    // Each label separately: against its contradiction, if the model has one.
    const alone = (row: Float32Array) => {
      const against = row[contradiction >= 0 ? contradiction : entailment === 0 ? row.length - 1 : 0] as number;
      return sigmoid(scoreOf(row) - against);
    };
    const isEach = request.isMultiLabel || rows.length === 1;
    return ranked(request.labels, isEach ? rows.map(alone) : softmax(rows.map(scoreOf)));
  };
  return nativeTask(tokenizer.longest, graph.load, async (fields, call) => {
    if (fields.list("inputs")) return { results: await ownLabels(requiredTexts(fields, "inputs"), "inputs", call) };
    const input = requiredText(fields, "input");
    const request = readZeroShot(fields);
    if (request) return { results: await givenLabels(input, request, call) };
    const [results = []] = await ownLabels([input], "input", call);
    return { results };
  });
}

export interface ZeroShot {
  readonly labels: readonly string[];
  /** Returns the hypothesis for a label, which is inserted literally: `$&` has no special meaning. */
  readonly hypothesis: (label: string) => string;
  readonly isMultiLabel: boolean;
}

/** Undefined without candidate_labels. Throws RequestError. */
export function readZeroShot(fields: Fields, template = usualTemplate): ZeroShot | undefined {
  const list = fields.list("candidate_labels");
  if (list === undefined) return undefined;
  const labels = list.filter((one): one is string => typeof one === "string" && one.trim() !== "");
  if (labels.length !== list.length || labels.length === 0 || labels.length > maxLabels)
    throw invalid("candidate_labels", `candidate_labels must be a list of 1 to ${maxLabels} texts, none of them empty`);
  const given = fields.string("hypothesis_template") ?? template;
  if (!given.includes("{}"))
    throw invalid("hypothesis_template", "hypothesis_template must hold {}, where the label goes");
  return {
    labels,
    hypothesis: (label) => given.replace("{}", () => label),
    isMultiLabel: fields.boolean("multi_label") ?? false,
  };
}

function requiredTexts(fields: Fields, name: string): readonly string[] {
  const texts = fields.list(name) ?? [];
  if (texts.length === 0 || texts.length > maxTexts || texts.some((text) => typeof text !== "string" || text === ""))
    throw invalid(name, `${name} must be a list of 1 to ${maxTexts} texts, none of them empty`);
  return texts as string[];
}
