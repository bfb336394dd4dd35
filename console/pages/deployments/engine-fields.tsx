import { NumberInput, Select, SimpleGrid, TextInput } from "@mantine/core";
import type { ReactNode } from "react";
import { engines, isLanguageModel } from "../../domain/new-deployment.ts";
import { text } from "../../text/deployments.ts";
import { Section } from "../../ui/page.tsx";
import { fieldOf } from "./fits.ts";
import type { FormPart } from "./model-choice.tsx";

const words = text.create;

export function EngineFields({ form, change, error }: FormPart): ReactNode {
  if (!isLanguageModel(form)) return null;
  return (
    <Section title={words.advanced}>
      <SimpleGrid cols={{ base: 1, sm: 2 }}>
        <Select
          label={words.engine}
          data={[{ value: "", label: words.engineAuto }, ...engines]}
          value={form.engine}
          allowDeselect={false}
          onChange={(engine) => change({ engine: engine ?? "" })}
        />
        <NumberInput
          label={words.context_}
          description={words.contextHint}
          min={128}
          max={10_000_000}
          value={form.context}
          onChange={(value) => change({ context: String(value) })}
        />
      </SimpleGrid>
      <TextInput
        mt="sm"
        label={words.args}
        description={words.argsHint}
        value={form.args}
        spellCheck={false}
        autoComplete="off"
        error={fieldOf(error) === "args" ? error?.message : undefined}
        onChange={(event) => change({ args: event.currentTarget.value })}
      />
    </Section>
  );
}
