import { ActionIcon, Box, Code as CodeText, CopyButton, Group, SegmentedControl, Tooltip } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";
import { type ReactNode, useState } from "react";
import { text } from "../text/common.ts";

export function Copy({ value, label = text.copy }: { value: string; label?: string }): ReactNode {
  return (
    <CopyButton value={value} timeout={2000}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? text.copied : label}>
          <ActionIcon
            variant="subtle"
            color={copied ? "green" : "gray"}
            aria-label={copied ? text.copied : label}
            onClick={copy}
          >
            {copied ? <IconCheck size={16} /> : <IconCopy size={16} />}
          </ActionIcon>
        </Tooltip>
      )}
    </CopyButton>
  );
}

/** A block of code with a button that copies it. */
export function Code({ value, label }: { value: string; label?: string }): ReactNode {
  return (
    <Box className="code" {...(label ? { role: "group", "aria-label": label } : {})}>
      <Box className="code-copy">
        <Copy value={value} />
      </Box>
      <CodeText block tabIndex={0}>
        {value}
      </CodeText>
    </Box>
  );
}

/** The command that does the same as a button. */
export function Command({ value }: { value: string }): ReactNode {
  return (
    <Group gap={4} wrap="nowrap" className="command">
      <CodeText>{value}</CodeText>
      <Copy value={value} />
    </Group>
  );
}

interface CodeTabsProps {
  readonly examples: Readonly<Record<string, string>>;
  /** Language that is shown. By default the first one, and the tabs remember what is chosen. */
  readonly value?: string;
  readonly onChange?: (language: string) => void;
}

/** The same example in several languages. */
export function CodeTabs({ examples, value, onChange }: CodeTabsProps): ReactNode {
  const names = Object.keys(examples);
  const [own, setOwn] = useState("");
  const chosen = names.find((name) => name === (value ?? own)) ?? names[0] ?? "";
  return (
    <Box>
      <SegmentedControl
        size="xs"
        mb="xs"
        data={names}
        value={chosen}
        onChange={onChange ?? setOwn}
        aria-label={text.language}
      />
      <Code value={examples[chosen] ?? ""} label={chosen} />
    </Box>
  );
}
