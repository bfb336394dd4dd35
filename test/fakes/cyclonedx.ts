import { type Spec, Validation } from "@cyclonedx/cyclonedx-library";

/** Returns what CycloneDX's own JSON schema finds wrong with a bill of materials; null: it is valid. */
export function schemaErrors(text: string): Promise<unknown> {
  const { specVersion } = JSON.parse(text);
  return new Validation.JsonStrictValidator(specVersion as Spec.Version).validate(text);
}
