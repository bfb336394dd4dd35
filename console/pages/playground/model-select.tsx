import { Select, Text } from "@mantine/core";
import type { ReactNode } from "react";
import type { ModelSummary } from "../../domain/models.ts";
import { text } from "../../text/playground.ts";

interface ModelSelectProps {
  readonly label?: string;
  readonly models: readonly ModelSummary[];
  readonly value: string;
  readonly onChange: (name: string) => void;
}

export function ModelSelect({ label = text.model, models, value, onChange }: ModelSelectProps): ReactNode {
  const chosen = models.find(({ model_name: name }) => name === value);
  return (
    <Select
      label={label}
      data={models.map(({ model_name: name }) => name)}
      value={value}
      searchable={models.length > 8}
      allowDeselect={false}
      onChange={(name) => name && onChange(name)}
      description={
        chosen && (
          <Text component="span" size="xs">
            {chosen.pricing.short}
          </Text>
        )
      }
    />
  );
}

/** The named model, or the first one. */
export const chosenOf = (models: readonly ModelSummary[], name: string): ModelSummary =>
  models.find((one) => one.model_name === name) ?? (models[0] as ModelSummary);
