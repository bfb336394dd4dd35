// What an answer is held to -> GBNF.
import { unreachable } from "../../../proto/unreachable.ts";
import type { Constraint } from "../../server/text-engine.ts";
import { GrammarRules } from "./grammar-rules.ts";
import * as json from "./json-primitives.ts";
import { jsonSchemaGrammar } from "./json-schema.ts";
import { regexToGbnf } from "./regex.ts";

/** Throws UnsupportedConstraint. */
export function constraintGrammar(constraint: Constraint): string {
  switch (constraint.kind) {
    case "json-object": {
      const rules = new GrammarRules();
      return rules.grammar(json.object(rules));
    }
    case "json-schema":
      return jsonSchemaGrammar(constraint.schema);
    case "regex":
      return `root ::= ${regexToGbnf(constraint.regex).expression}`;
    case "gbnf":
      return constraint.grammar;
    default:
      return unreachable(constraint);
  }
}
