// Fields of a request, for each interface of a model.
import { Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useGet } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import { modelPath } from "../../domain/models.ts";
import { text as all } from "../../text/models.ts";
import { Choice } from "../../ui/choice.tsx";
import { Code } from "../../ui/code.tsx";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { Loaded } from "../../ui/notice.tsx";

type Schema = Responses["GET /models/{model_name}/schema/{variantKey}"];
type Field = Schema["fields_in"][number];

const text = all.model;

export function Schemas({ model, variants }: { model: string; variants: readonly string[] }): ReactNode {
  const [wanted, setVariant] = useFilter("interface");
  const first = variants.includes("compat-chat-completions") ? "compat-chat-completions" : (variants[0] ?? "");
  const variant = variants.includes(wanted) ? wanted : first;
  const schema = useGet<Schema>(`${modelPath(model)}/schema/${encodeURIComponent(variant)}`, {
    enabled: variant !== "",
  });
  if (variant === "") return null;
  return (
    <Stack gap="sm">
      {variants.length > 1 && (
        <div>
          <Choice
            label={text.interface}
            options={Object.fromEntries(variants.map((one) => [one, text.interfaces[one] ?? one]))}
            value={variant}
            onChange={setVariant}
          />
        </div>
      )}
      <Loaded query={schema}>
        {({ fields_in: fields, schema_in: input, schema_out: output, schema_stream: stream }) => (
          <>
            <DataTable
              name="parameters"
              id="field-"
              rows={fields}
              columns={columns}
              keyOf={(field) => `${field.parent}.${field.name}`}
              empty={text.noFields}
            />
            <details>
              <summary>{text.jsonSchema}</summary>
              <Stack gap="sm" mt="xs">
                <Schematic name={text.input} of={input} />
                <Schematic name={text.answer} of={output} />
                <Schematic name={text.stream} of={stream} />
              </Stack>
            </details>
          </>
        )}
      </Loaded>
    </Stack>
  );
}

function Schematic({ name, of }: { name: string; of: object }): ReactNode {
  if (Object.keys(of).length === 0) return null;
  return (
    <div>
      <Text size="sm" fw={600}>
        {name}
      </Text>
      <Code value={JSON.stringify(of, null, 2)} label={name} />
    </div>
  );
}

const nameOf = ({ parent, name }: Field): string => (parent ? `${parent}.${name}` : name);

const columns: readonly Column<Field>[] = [
  { name: text.field, value: nameOf, show: (field) => <code>{nameOf(field)}</code> },
  { name: text.type, value: ({ ftype }) => ftype },
  { name: text.allowed, value: allowedText },
  {
    name: text.default,
    value: (field) => (field.default === null || field.default === undefined ? "" : JSON.stringify(field.default)),
  },
  { name: text.description, value: ({ description }) => description ?? "" },
];

const number = (value: number): string =>
  Math.abs(value) >= 1e15 ? value.toExponential(0) : value.toLocaleString("en-US");

function allowedText({ allowed, minimum, maximum, exclusiveMinimum, exclusiveMaximum }: Field): string {
  if (allowed) return allowed.map((value) => (typeof value === "string" ? value : JSON.stringify(value))).join(", ");
  if (minimum !== undefined && maximum !== undefined) return text.between(number(minimum), number(maximum));
  return [
    minimum !== undefined && text.atLeast(number(minimum)),
    exclusiveMinimum !== undefined && text.above(number(exclusiveMinimum)),
    maximum !== undefined && text.atMost(number(maximum)),
    exclusiveMaximum !== undefined && text.below(number(exclusiveMaximum)),
  ]
    .filter((part) => part !== false)
    .join(", ");
}
