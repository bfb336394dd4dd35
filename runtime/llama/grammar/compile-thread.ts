import { unreachable } from "../../../proto/unreachable.ts";
import type { Constraint } from "../../server/text-engine.ts";
import { serveCalls } from "../../threads/thread-calls.ts";
import { toolFormats } from "../tools/answer-syntax.ts";
import { callGrammar } from "../tools/call-grammar.ts";
import { type ParsedGrammar, parseGbnf } from "./gbnf-rules.ts";
import { GrammarRules, UnsupportedConstraint } from "./grammar-rules.ts";
import { checkGrammarWork } from "./grammar-work.ts";
import * as json from "./json-primitives.ts";
import { jsonSchemaGrammar } from "./json-schema.ts";
import { regexToGbnf } from "./regex.ts";

export interface CompiledText {
  readonly gbnf: string;
  readonly parsed: ParsedGrammar;
}

export type CompileFunctions = typeof functions;

const functions = {
  /** Replies once the thread has read its modules. */
  start(): void {},

  /** Throws UnsupportedConstraint. */
  compile(constraint: Constraint): CompiledText {
    try {
      const gbnf = constraintGrammar(constraint);
      const parsed = parseGbnf(gbnf);
      checkGrammarWork(parsed);
      return { gbnf, parsed };
    } catch (error) {
      // The stack of this thread is smaller than the deepest schema that a body can hold.
      if (error instanceof RangeError)
        throw new UnsupportedConstraint("its parts are nested too deeply; nest them less");
      throw error;
    }
  },
};

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
      return callGrammar(constraint.tools, constraint.maxCalls, format.form);
    }
    default:
      return unreachable(constraint);
  }
}

serveCalls(functions);
