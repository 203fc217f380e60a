#pragma once
#include "cli/show/report_text.h"

namespace greta {

/// Sentences of findings and of their cases. {0} side, {1} other_side, {2} tensor, {3}
/// other_tensor, {4} at, {5} other_at, {6} count, {7} of_count, {8} value, {9} distance: columns of
/// the view diagnosis.
// clang-format off
inline constexpr ReportText kTextsOfFindings[] = {
  {"UNSTABLE", "{0}'s row came out otherwise in {6} of {7} repeats of the prompt", "la fila de {0} salió distinta en {6} de {7} repeticiones del prompt"},
  {"UNSTABLE.rows", "{6} different rows of {0} at this place", "{6} filas distintas de {0} en este lugar"},
  {"ALL_NAN", "every value of {0}'s row is NaN", "todos los valores de la fila de {0} son NaN"},
  {"ALL_NAN.both", "every value of both rows is NaN", "todos los valores de ambas filas son NaN"},
  {"SOME_NAN", "{6} of {7} values of {0}'s row are NaN or infinite", "{6} de {7} valores de la fila de {0} son NaN o infinitos"},
  {"ALL_ZERO", "every value of {0}'s row is 0", "todos los valores de la fila de {0} son 0"},
  {"OTHER_POSITION", "{0}'s row of position {4} is {1}'s of position {5}", "la fila de {0} de la posición {4} es la de {1} de la posición {5}"},
  {"OTHER_POSITION.tensor", "{0}'s row of position {4} is {1}'s {3} of position {5}", "la fila de {0} de la posición {4} es la de {1} {3} de la posición {5}"},
  {"STALE_ROW", "{0}'s row of position {4} is its own of position {5}", "la fila de {0} de la posición {4} es la suya de la posición {5}"},
  {"OTHER_LAYER", "{0}'s row of layer {4} is {1}'s of layer {5}", "la fila de {0} de la capa {4} es la de {1} de la capa {5}"},
  {"OTHER_TENSOR", "{0}'s {2} is {1}'s {3} of this layer", "{2} de {0} es igual a lo que {1} tiene en esta capa como {3}"},
  {"EARLIER_ROW", "{3} of this position does not differ beyond rounding: a row before it does", "{3} de esta posición no difiere más allá del redondeo: una fila anterior sí"},
  {"OTHER_HEAD", "head {4} of {0}'s row is head {5} of {1}'s", "la cabeza {4} de la fila de {0} es la cabeza {5} de la de {1}"},
  {"SOME_HEADS", "{6} of {7} heads differ, the others by rounding at most", "difieren {6} de {7} cabezas; las otras, por redondeo como mucho"},
  {"NOT_ONE", "the probabilities of {0}'s {6} heads add up to {8}", "las probabilidades de las {6} cabezas de {0} suman {8}"},
  {"SCALED", "{0}'s row is {8} times {1}'s, but for a relative distance of {9}", "la fila de {0} es {8} veces la de {1}, salvo una distancia relativa de {9}"},
  {"PERMUTED", "both rows have the same values, in another order", "ambas filas tienen los mismos valores, en otro orden"},
  {"TURNED", "both rows have the same norm and point elsewhere: a relative distance of {9}", "ambas filas tienen la misma norma y otra dirección: una distancia relativa de {9}"},
  {"FEWER_VALUES", "{0}'s row has {6} zeros more than {1}'s, of {7} values", "la fila de {0} tiene {6} ceros más que la de {1}, de {7} valores"},
  {"TAIL", "the first {6} of {7} values are equal", "los primeros {6} de {7} valores son iguales"},
  {"FEW_VALUES", "{6} of the {7} sums of their sketches are equal", "son iguales {6} de las {7} sumas de sus sketches"},
  {"ROUNDING", "a relative distance of {9}", "una distancia relativa de {9}"},
  {"ROUNDING.bits", "other bits", "otros bits"},
  {"FEWER_BITS", "a relative distance of {9} and no factor", "una distancia relativa de {9} y ningún factor"},
  {"UNRELATED", "the rows have nothing to do with each other: a relative distance of {9}", "las filas no tienen nada que ver entre sí: una distancia relativa de {9}"},
  {"UNRELATED.little", "the rows have little to do with each other: a relative distance of {9}", "las filas tienen poco que ver entre sí: una distancia relativa de {9}"},
  {"ONSET.position", "positions up to {5} are clean, none from {4} on", "las posiciones hasta la {5} están limpias, ninguna desde la {4}"},
  {"ONSET.tokens", "prompts of up to {5} tokens are clean, none of {4} or more", "los prompts de hasta {5} tokens están limpios, ninguno de {4} o más"},
  {"ONSET.batch", ": a multiple of the batch, {7}", ": un múltiplo del lote, {7}"},
  {"ONSET.block", ": a multiple of {6}", ": un múltiplo de {6}"},
  {"ONSET.behind", ": one after a multiple of {6}", ": uno más que un múltiplo de {6}"},
  {"AND", "; ", "; "},
  {"REPEATED", "in {6} repeats of the prompt both rows came out alike", "en {6} repeticiones del prompt ambas filas salieron iguales"},
};

/// The usual cause of a finding, in Spanish. The English text is the column finding.meaning.
struct FindingMeaning {
  std::string_view name, spanish;
};
inline constexpr FindingMeaning kSpanishMeanings[] = {
  {"UNSTABLE", "una carrera, o memoria en la que otro escribe"},
  {"ALL_NAN", "lee lo que nadie escribió (un búfer, una fila de la caché, una ranura tras la última) o desborda"},
  {"SOME_NAN", "un desbordamiento, como el de una exponencial sin su máximo, o filas o cabezas sueltas que nadie escribió"},
  {"ALL_ZERO", "no se calculó nada en ella: un lanzamiento que no hizo nada, o un búfer borrado demasiado tarde"},
  {"OTHER_POSITION", "una posición desplazada en uno, o una fila obsoleta"},
  {"STALE_ROW", "la fila del token anterior no se sobrescribió, o se capturó demasiado pronto"},
  {"OTHER_LAYER", "los pesos, la caché o el búfer de otra capa"},
  {"OTHER_TENSOR", "el paso entre ambos no hizo nada, o se leyó el búfer equivocado"},
  {"EARLIER_ROW", "filas de la caché anteriores a esta posición sobrescritas, estropeadas o leídas de otro lugar"},
  {"OTHER_HEAD", "la correspondencia de cabezas"},
  {"SOME_HEADS", "la correspondencia, el paso o la disposición de las cabezas"},
  {"NOT_ONE", "claves más allá de la máscara, o una suma sobre otras claves que las probabilidades"},
  {"SCALED", "una escala, un épsilon o un peso que falta o se aplica dos veces"},
  {"PERMUTED", "otra disposición: cabezas, pares o filas en otro orden"},
  {"TURNED", "una rotación con otros ángulos: la posición, la frecuencia base o el emparejamiento de RoPE"},
  {"FEWER_VALUES", "valores que se omitieron: una máscara, un bloque o una cola"},
  {"TAIL", "un bucle que omite o repite los últimos valores, o valores sueltos más adelante"},
  {"FEW_VALUES", "valores sueltos: una carrera, un índice que comparten dos hilos, un valor escrito dos veces"},
  {"ROUNDING", "las mismas sumas en otro orden (otro kernel, ruta o lote), o un número que difiere en sus últimas cifras"},
  {"FEWER_BITS", "aritmética o almacenamiento con menos bits: sumas o pesos en fp16 o bf16"},
  {"UNRELATED", "valores de otro lugar: una disposición, un paso, un desplazamiento, una correspondencia de cabezas u otros pesos"},
  {"ONSET", "el tamaño de un bloque, una tesela o un lote"},
  {"REPEATED", "no es una carrera: cada vez lo mismo"},
};
// clang-format on

}  // namespace greta
