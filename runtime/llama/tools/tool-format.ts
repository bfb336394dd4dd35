// Tool calls of a model family: a grammar that forces them and a parser that reads them while they stream.
// One file per format; the chat template determines the format of a model.

export interface ToolDefinition {
  readonly name: string;
  /** JSON Schema of the arguments; undefined = any object. */
  readonly parameters: unknown;
}

/** Parts that are final after the last text. */
export type ToolEvent =
  | { readonly kind: "text"; readonly text: string }
  /** Reasoning before the answer. */
  | { readonly kind: "reasoning"; readonly text: string }
  | { readonly kind: "call"; readonly index: number; readonly name: string }
  /** A further part of the JSON text of that call's arguments. */
  | { readonly kind: "arguments"; readonly index: number; readonly text: string };

export interface ToolCallParser {
  push(text: string): readonly ToolEvent[];
  /** No text follows. */
  end(): readonly ToolEvent[];
}

/** How a model writes calls, in GBNF. */
export interface CallForm {
  readonly lead?: string;
  /** One call, given the expression of its arguments. */
  call(name: string, parameters: string): string;
  /** Undefined: one answer has one call. */
  readonly separator?: string;
  readonly end?: string;
}

export interface ToolFormat {
  readonly name: string;
  readonly form: CallForm;
  parser(): ToolCallParser;
}
