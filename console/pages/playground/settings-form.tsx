// Parameters of a chat.
import { Button, Group, JsonInput, NumberInput, Select, Slider, Stack, Text, Textarea } from "@mantine/core";
import type { ReactNode } from "react";
import { defaultSettings, formatOf, type Settings, SettingsError, toolsOf } from "../../domain/conversations.ts";
import { text } from "../../text/playground.ts";

const words = text.settings;

interface SettingsFormProps {
  readonly settings: Settings;
  /** Maximum output of the model; 0: unknown. */
  readonly maxOutput: number;
  readonly onChange: (settings: Settings) => void;
}

export function SettingsForm({ settings, maxOutput, onChange }: SettingsFormProps): ReactNode {
  const change = (part: Partial<Settings>) => onChange({ ...settings, ...part });
  /** Empty: the server's default. */
  const changeNumber = (name: OptionalNumber, value: number | string) => {
    const { [name]: _, ...rest } = settings;
    onChange(typeof value === "number" ? { ...rest, [name]: value } : rest);
  };
  const optional = (name: OptionalNumber, range: { min?: number; max?: number; step?: number }) => (
    <NumberInput
      label={words[name]}
      size="xs"
      placeholder={words.default}
      value={settings[name] ?? ""}
      onChange={(value) => changeNumber(name, value)}
      {...range}
    />
  );
  const isDefault = JSON.stringify(settings) === JSON.stringify(defaultSettings);
  return (
    <Stack gap="sm">
      <Textarea
        label={words.system}
        placeholder={words.systemPlaceholder}
        size="xs"
        autosize
        minRows={3}
        maxRows={10}
        value={settings.system}
        onChange={(event) => change({ system: event.currentTarget.value })}
      />
      <div>
        <Group justify="space-between">
          <Text size="xs" fw={500} id="temperature-label">
            {words.temperature}
          </Text>
          <Text size="xs" c="dimmed">
            {settings.temperature.toFixed(1)}
          </Text>
        </Group>
        <Slider
          thumbProps={{ "aria-labelledby": "temperature-label" }}
          min={0}
          max={2}
          step={0.1}
          size="sm"
          label={null}
          value={settings.temperature}
          onChange={(temperature) => change({ temperature })}
        />
      </div>
      <NumberInput
        label={words.maxTokens}
        size="xs"
        min={1}
        max={maxOutput || 1_000_000}
        step={64}
        value={settings.maxTokens}
        onChange={(value) => change({ maxTokens: Number(value) || 1 })}
      />
      <details>
        <summary>{words.more}</summary>
        <Stack gap="sm" mt="xs">
          <Group grow gap="xs" align="flex-end">
            {optional("topP", { min: 0.01, max: 1, step: 0.05 })}
            {optional("seed", { min: 0 })}
          </Group>
          <Group grow gap="xs" align="flex-end">
            {optional("presencePenalty", { min: -2, max: 2, step: 0.1 })}
            {optional("frequencyPenalty", { min: -2, max: 2, step: 0.1 })}
          </Group>
          <Select
            label={words.effort}
            size="xs"
            data={[{ value: "", label: words.effortDefault }, ...words.efforts]}
            value={settings.reasoningEffort}
            allowDeselect={false}
            onChange={(reasoningEffort) => change({ reasoningEffort: reasoningEffort ?? "" })}
          />
          <Select
            label={words.tier}
            description={words.tierHint}
            size="xs"
            data={words.tiers}
            value={settings.serviceTier ?? ""}
            allowDeselect={false}
            onChange={(serviceTier) => change({ serviceTier: serviceTier ?? "" })}
          />
          <Textarea
            label={words.stop}
            description={words.stopHint}
            size="xs"
            autosize
            minRows={1}
            maxRows={4}
            value={settings.stop}
            onChange={(event) => change({ stop: event.currentTarget.value })}
          />
        </Stack>
      </details>
      <details open={settings.tools !== ""}>
        <summary>{words.tools}</summary>
        <JsonField
          label={words.tools}
          hint={words.toolsHint}
          value={settings.tools}
          example={toolsExample}
          check={toolsOf}
          onChange={(tools) => change({ tools })}
        />
      </details>
      <details open={settings.schema !== ""}>
        <summary>{words.schema}</summary>
        <JsonField
          label={words.schema}
          hint={words.schemaHint}
          value={settings.schema}
          example={schemaExample}
          check={formatOf}
          onChange={(schema) => change({ schema })}
        />
      </details>
      {!isDefault && (
        <div>
          <Button size="compact-xs" variant="subtle" color="gray" onClick={() => onChange(defaultSettings)}>
            {words.reset}
          </Button>
        </div>
      )}
    </Stack>
  );
}

type OptionalNumber = "topP" | "presencePenalty" | "frequencyPenalty" | "seed";

interface JsonFieldProps {
  readonly label: string;
  readonly hint: string;
  readonly value: string;
  readonly example: unknown;
  /** Throws SettingsError. */
  readonly check: (json: string) => unknown;
  readonly onChange: (json: string) => void;
}

function JsonField({ label, hint, value, example, check, onChange }: JsonFieldProps): ReactNode {
  return (
    <Stack gap={4} mt="xs">
      <JsonInput
        aria-label={label}
        description={hint}
        size="xs"
        autosize
        minRows={3}
        maxRows={16}
        formatOnBlur
        spellCheck={false}
        error={faultOf(() => check(value))}
        value={value}
        onChange={onChange}
      />
      {value.trim() === "" && (
        <div>
          <Button size="compact-xs" variant="light" onClick={() => onChange(JSON.stringify(example, null, 2))}>
            {words.toolsExample}
          </Button>
        </div>
      )}
    </Stack>
  );
}

function faultOf(check: () => unknown): string | undefined {
  try {
    check();
    return undefined;
  } catch (error) {
    if (error instanceof SettingsError) return error.message;
    throw error;
  }
}

const toolsExample = [
  {
    name: "get_weather",
    description: "Current weather of a city",
    parameters: {
      type: "object",
      properties: { city: { type: "string" }, unit: { enum: ["celsius", "fahrenheit"] } },
      required: ["city"],
    },
  },
];

const schemaExample = {
  type: "object",
  properties: { title: { type: "string" }, tags: { type: "array", items: { type: "string" } } },
  required: ["title", "tags"],
};
