import { TagsInput } from "@mantine/core";
import type { ReactNode } from "react";
import { useModels } from "../models/use-models.ts";

interface ModelNamesProps {
  readonly label: string;
  readonly description: string;
  /** Shown while none is chosen. */
  readonly any: string;
  readonly value: readonly string[];
  readonly disabled?: boolean;
  readonly onChange: (names: readonly string[]) => void;
}

/** Names of models: those of the account are proposed, others may be typed. */
export function ModelNames({ label, description, any, value, disabled, onChange }: ModelNamesProps): ReactNode {
  const models = useModels();
  return (
    <TagsInput
      label={label}
      description={description}
      placeholder={value.length === 0 ? any : ""}
      data={(models.data ?? []).map((model) => model.model_name)}
      value={[...value]}
      maxTags={100}
      splitChars={[",", " "]}
      acceptValueOnBlur
      clearable
      disabled={disabled ?? false}
      clearButtonProps={{ "aria-label": any }}
      // Pasted text is not split.
      onChange={(tags) =>
        onChange([...new Set(tags.flatMap((tag) => tag.split(/[\s,]+/)))].filter((name) => name !== ""))
      }
    />
  );
}
