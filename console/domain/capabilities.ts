import type { Responses } from "../../proto/gen/responses.ts";
import type { ModelSummary } from "./models.ts";

type Entry = Responses["GET /v1/model-catalogue"]["models"][number];

/** Undefined: unknown. */
export interface Capabilities {
  readonly tools: boolean | undefined;
  readonly images: boolean | undefined;
  readonly reasoning: boolean | undefined;
  /** Billions of parameters. */
  readonly parameters: number | undefined;
  readonly licence: string | undefined;
}

/** The record of a model does not say it; the entry of the catalogue with the same name does. */
export function capabilitiesOf(
  { type }: Pick<ModelSummary, "type">,
  entry: Pick<Entry, "tool_parser" | "reasoning_parser" | "inputs" | "parameters" | "licence"> | undefined,
): Capabilities {
  return {
    tools: entry && entry.tool_parser !== "",
    images: type === "image-text-to-text" ? true : entry?.inputs.includes("image"),
    reasoning: entry && entry.reasoning_parser !== "",
    parameters: entry?.parameters,
    licence: entry?.licence,
  };
}
