// How the page's scripts are written. Types are checked by tsc (tsconfig.json); what a line looks
// like is left to its writer, apart from its length.

import js from "@eslint/js";

// What the scripts may take from the browser: TypeScript knows far more, also `name` and `event`.
const BROWSER = [
  "AbortController", "BroadcastChannel", "CustomEvent", "DOMParser", "Element",
  "HTMLAnchorElement", "HTMLDialogElement", "HTMLElement", "HTMLInputElement", "Intl",
  "TextDecoderStream", "addEventListener", "clearInterval", "clearTimeout", "document",
  "fetch", "location", "navigator", "performance", "setInterval", "setTimeout", "window",
];
const AS_TEXT = "Text goes into the page as text nodes: dom.js.";

export default [
  js.configs.recommended,
  {
    linterOptions: { reportUnusedDisableDirectives: "error" },
    languageOptions: {
      ecmaVersion: 2022,
      sourceType: "module",
      globals: Object.fromEntries(BROWSER.map((name) => [name, "readonly"])),
    },
    rules: {
      "complexity": ["error", 12],
      "max-len": ["error", 100],
      "max-lines": ["error", 500],
      "max-lines-per-function": ["error", 60],
      "max-depth": ["error", 3],
      "curly": ["error", "multi-line"],
      "default-case-last": "error",
      "eqeqeq": "error",
      "no-alert": "error",
      "no-console": "error",
      "no-eval": "error",
      "no-implicit-coercion": "error",
      "no-implied-eval": "error",
      "no-param-reassign": "error",
      "no-restricted-properties": [
        "error",
        { property: "insertAdjacentHTML", message: AS_TEXT },
        { object: "document", property: "write", message: AS_TEXT },
      ],
      "no-restricted-syntax": [
        "error",
        {
          selector: "AssignmentExpression > [property.name=/^(inner|outer)HTML$/].left",
          message: AS_TEXT,
        },
      ],
      "no-shadow": ["error", { builtinGlobals: true }],
      "no-unneeded-ternary": "error",
      "no-unused-expressions": "error",
      "no-use-before-define": ["error", { functions: false }],
      "no-var": "error",
      "object-shorthand": "error",
      "prefer-const": "error",
      "prefer-template": "error",
      "require-await": "error",
    },
  },
];
