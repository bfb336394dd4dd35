import { parentPort } from "node:worker_threads";
import { unreachable } from "../../../proto/unreachable.ts";
import type { Constraint } from "../../server/text-engine.ts";
import { toolFormats } from "../tools/answer-syntax.ts";
import { parseGbnf } from "./gbnf-rules.ts";
import type { Compilation } from "./grammar-compiler.ts";
import { GrammarRules, UnsupportedConstraint } from "./grammar-rules.ts";
import { checkGrammarWork } from "./grammar-work.ts";
import * as json from "./json-primitives.ts";
import { jsonSchemaGrammar } from "./json-schema.ts";
import { regexToGbnf } from "./regex.ts";

function compile(constraint: Constraint): Compilation {
  try {
    const gbnf = constraintGrammar(constraint);
    const parsed = parseGbnf(gbnf);
    checkGrammarWork(parsed);
    return { gbnf, parsed };
  } catch (error) {
    if (error instanceof UnsupportedConstraint) return { refusal: error.message };
    // The stack of this thread is smaller than the deepest schema that a body can hold.
    if (error instanceof RangeError) return { refusal: "its parts are nested too deeply; nest them less" };
    throw error;
  }
}

parentPort?.on("message", (constraint: Constraint) => parentPort?.postMessage(compile(constraint)));
parentPort?.postMessage("ready");

/** Converts a constraint to GBNF. Throws UnsupportedConstraint. */
function constraintGrammar(constraint: Constraint): string {
  switch (constraint.kind) {
    case "json-object": {
      const rules = new GrammarRules();
      return rules.grammar(json.object(rules));
    }
    case "json-schema":
      return jsonSchemaGrammar(constraint.schema);
    case "regex":
      return `root ::= ${regexToGbnf(constraint.regex).expression}`;
    case "tools": {
      const format = toolFormats[constraint.format];
      if (!format) throw new UnsupportedConstraint(`this server has no tool format "${constraint.format}"`);
      return format.grammar(constraint.tools, { maxCalls: constraint.maxCalls });
    }
    default:
      return unreachable(constraint);
  }
}
