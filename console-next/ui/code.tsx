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

/** The same example in several languages. */
export function CodeTabs({ examples }: { examples: Readonly<Record<string, string>> }): ReactNode {
  const names = Object.keys(examples);
  const [chosen, setChosen] = useState(names[0] ?? "");
  return (
    <Box>
      <SegmentedControl size="xs" mb="xs" data={names} value={chosen} onChange={setChosen} aria-label="Language" />
      <Code value={examples[chosen] ?? ""} />
    </Box>
  );
}
