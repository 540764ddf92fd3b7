// SPDX-License-Identifier: Apache-2.0
// The style of report pages.

#pragma once

#include <string_view>

namespace eqt::report {

// gnuplot writes black and white as attributes; these rules override them.
inline constexpr std::string_view kPageStyle = R"css(
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fff; --soft: #f2f4f6; --line: #c6ccd2;
  --shade: #0005; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e8; --paper: #16181b; --soft: #22262b; --line: #454c54;
    --shade: #fff6; }
}
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: var(--paper); font: 1rem/1.5 system-ui, sans-serif; }
main { max-width: 84rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0.5rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2rem 0 0.5rem; }
p, li { max-width: 60rem; overflow-wrap: anywhere; }
ul { padding-left: 1.25rem; }
nav { font-size: 0.9rem; }
a { color: inherit; }
.hint { display: none; font-size: 0.9rem; }
/* Shadows at the ends of what scrolls; the page's own colour, moving along, covers them there. */
.scroll { overflow-x: auto; background:
  linear-gradient(to right, var(--paper) 30%, transparent) left / 2rem 100% no-repeat local,
  linear-gradient(to left, var(--paper) 30%, transparent) right / 2rem 100% no-repeat local,
  linear-gradient(to right, var(--shade), transparent) left / 0.8rem 100% no-repeat scroll,
  linear-gradient(to left, var(--shade), transparent) right / 0.8rem 100% no-repeat scroll; }
.scroll:focus-visible { outline: 2px solid #0072b2; }
table { border-collapse: separate; border-spacing: 0; font-size: 0.9rem; margin: 0.75rem 0; }
caption { text-align: left; font-weight: 600; padding: 0.25rem 0; }
caption span { display: inline-block; position: sticky; left: 0; max-width: calc(100vw - 2.5rem); }
th, td { padding: 0.3rem 0.6rem; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; }
thead th { background: var(--soft); vertical-align: bottom; }
tbody th { font-weight: 600; min-width: 8rem; max-width: 22rem; overflow-wrap: anywhere;
  background: var(--paper); }
tbody th, thead th:first-child { position: sticky; left: 0; }
tbody tr:hover > * { background: var(--soft); }
.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
thead .n { white-space: normal; }
.plots { display: grid; gap: 1.25rem; align-items: start;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); }
figure { margin: 0; min-width: 0; border: 1px solid var(--line); border-radius: 0.4rem;
  padding: 0.5rem; }
figure svg { display: block; width: 100%; height: auto; }
figure svg [fill="black"] { fill: var(--ink); }
figure svg [stroke="black"] { stroke: var(--ink); }
figure svg [color="black"] { color: var(--ink); }
figure svg [color="#FFFFFF"] { color: var(--paper); }
figcaption { font-size: 0.85rem; }
@media (max-width: 40rem) {
  main { padding: 0.6rem; }
  .hint { display: block; }
  th, td { padding: 0.3rem 0.4rem; }
  tbody th { min-width: 8rem; max-width: 9rem; overflow-wrap: break-word; }
  figure { padding: 0.25rem; }
}
@media print { .scroll { overflow: visible; } }
)css";

}  // namespace eqt::report
