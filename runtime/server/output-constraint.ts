// Form to which a request holds the output: any JSON, a schema or a pattern.
import { constraintProblem } from "../../proto/constraint-size.ts";
import { isJsonObject } from "../../proto/json-object.ts";
import { type Body, Fields } from "./fields.ts";
import { invalid, unusable } from "./request-error.ts";
import type { Constraint } from "./text-engine.ts";

/**
 * Returns the constraint of `response_format`; undefined: none. Throws RequestError, also where the formats of the body, those of its tools
 * included, are too large.
 */
export function readConstraint(body: Body): Constraint | undefined {
  const problem = constraintProblem(body);
  if (problem) throw unusable(problem.param, problem.message, "format_too_large");
  const format = new Fields(body).object("response_format");
  const type = format?.["type"] ?? "text";
  switch (type) {
    case "text":
      return undefined;
    case "json_object":
      return { kind: "json-object" };
    case "json_schema": {
      const wrapped = format?.["json_schema"];
      if (!isJsonObject(wrapped) || !isJsonObject(wrapped["schema"]))
        throw invalid(
          "response_format.json_schema.schema",
          "response_format.json_schema.schema must be a JSON Schema object",
        );
      return { kind: "json-schema", schema: wrapped["schema"] };
    }
    case "regex": {
      const regex = format?.["regex"];
      if (typeof regex !== "string" || regex === "")
        throw invalid("response_format.regex", "response_format.regex must be a regular expression");
      return { kind: "regex", regex };
    }
    default:
      throw unusable(
        "response_format",
        `response_format of type ${JSON.stringify(type)} is not supported; use text, json_object, json_schema or regex`,
      );
  }
}
